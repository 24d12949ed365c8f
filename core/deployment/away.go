package deployment

import "time"

// awaitNode is how long requests wait for a node that has left, if no other one has room: long enough for a
// restart.
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
}

// expectRoom makes requests wait for a node that joins, until the next plan.
func (d *Deployment) expectRoom() {
	if d.failure != nil && d.failure.unplaced {
		d.failure.later = true
	}
}

// awaits reports whether a node may soon offer room, because it is restarting or leaving.
func (d *Deployment) awaits() bool {
	for _, lastSeen := range d.departed {
		if d.now.Sub(lastSeen) < awaitNode {
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
