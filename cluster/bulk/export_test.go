package bulk

// ListensOn is where the plane listens, whatever it advertises.
func (p *Plane) ListensOn() string { return p.listener.Addr().String() }
