package link

const PingInterval = pingInterval

// OwnAddress returns the address by which other nodes reach this one.
func (l *Link) OwnAddress() string { return l.cluster.Config.RemoteConfig.Address() }
