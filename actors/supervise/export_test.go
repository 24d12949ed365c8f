package supervise

// Waiting is how many goroutines wait for work.
func (d *Dispatcher) Waiting() int { return int(d.waiting.Load()) }
