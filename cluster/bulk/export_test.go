package bulk

// ListensOn returns the address of the listener, whatever the plane advertises.
func (p *Plane) ListensOn() string { return p.listener.Addr().String() }
