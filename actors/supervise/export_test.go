package supervise

// Idle returns the number of idle goroutines.
func (d *Dispatcher) Idle() int { return int(d.idle.Load()) }
