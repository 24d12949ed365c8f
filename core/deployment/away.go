package deployment

import "time"

// awaitNode is how long requests wait for a node that has left or does not answer, if no other one has
// room: long enough for a restart.
const awaitNode = 30 * time.Second

// Departed is a member that has left or was lost, and is not back.
type Departed struct {
	Name     string
	LastSeen time.Time
}

// onDeparted remembers the members that are away. A leader that has just begun learns of them too.
func (d *Deployment) onDeparted(all []Departed) {
	clear(d.departed)
	for _, m := range all {
		d.departed[m.Name] = m.LastSeen
	}
	for at := range d.silent {
		if d.nodes[at.Node] == nil {
			delete(d.silent, at)
		}
	}
}

// expectGPUs makes requests wait for the GPUs of a node that joins: until the next plan, or until they have
// answered a placement.
func (d *Deployment) expectGPUs(m Member, now time.Time) {
	d.noRoom = false
	if d.planned() && d.failure != nil && d.failure.unplaced {
		d.failure.later = true
	}
	for _, gpu := range m.GPUs {
		d.silent[Location{m.Name, gpu}] = now
	}
}

// noteSilence remembers since when GPUs have not answered a placement.
func (d *Deployment) noteSilence(answers map[Location]*GPU, now time.Time) {
	for at, answer := range answers {
		if _, known := d.silent[at]; answer == nil && !known {
			d.silent[at] = now
		}
	}
}

// awaits reports whether a node may soon offer room: one that is restarting or leaving, or one that does not
// answer, which is perhaps down though its lease has not ended.
func (d *Deployment) awaits() bool {
	for _, lastSeen := range d.departed {
		if d.now.Sub(lastSeen) < awaitNode {
			return true
		}
	}
	for _, since := range d.silent {
		if !d.planned() && d.now.Sub(since) < awaitNode { // else the planner says whether it waits for a GPU
			return true
		}
	}
	for _, n := range d.nodes {
		if n.Leaving {
			return true
		}
	}
	return false
}
