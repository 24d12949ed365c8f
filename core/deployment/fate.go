package deployment

import "troupe/core/residency"

// markDrop notes that the weights of a replica are freed when it stops, if it is removed because
// fewer are wanted and the spec says so. A later spec does not take it back.
func (d *Deployment) markDrop(r *replica) { r.drop = r.drop || r.surplus && d.spec.Drop }

// fate returns what becomes of the weights of a replica that stops, if no other replica uses them.
func (d *Deployment) fate(drop, park bool) residency.Fate {
	switch {
	case drop, d.state == Removing && d.spec.Drop:
		return residency.Drop
	case d.state == Removing:
		return residency.Spare
	case park, d.spec.Level == Parked:
		return residency.Park
	}
	return residency.Keep
}
