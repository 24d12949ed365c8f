package turns

import "time"

// Status describes a replica that shares the device.
type Status struct {
	Replica string
	State   State
	Weight  float64
	Turns   uint64        // granted to it
	Waited  time.Duration // for these turns
}

// Status returns the replicas that share the device, by name.
func (m *Machine) Status() (all []Status) {
	for _, r := range m.replicas {
		all = append(all, Status{r.name, r.state, r.weight(), r.turns, r.waited})
	}
	return all
}

// weight returns the weight of a replica, as its last request has it.
func (r *replica) weight() float64 {
	if r.request.Weight <= 0 {
		return 1
	}
	return r.request.Weight
}
