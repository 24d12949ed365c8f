package deployment

import "time"

// refusalTimeout is how long a PlacementRefused counts that the planner does not repeat.
const refusalTimeout = 30 * time.Second

// onPlacementRefused handles the planner's report of why it has not assigned as many replicas as are
// wanted. A failure on a GPU is more specific, and stays.
func (d *Deployment) onPlacementRefused(e PlacementRefused, now time.Time) {
	if d.state != Active || e.Stored != d.stored {
		d.emit(Ignored{State: d.state})
		return
	}
	switch {
	case e.Missing == 0:
		d.forgetRefusal()
	case d.failure == nil || d.failure.unplaced:
		f := e.Failure
		f.unplaced, f.later = true, e.Later
		d.unplaced, d.refusedAt = true, now
		d.fail(f)
	default:
		d.unplaced = !e.Later
	}
	d.announce()
}

// forgetRefusal drops the failure of a deployment for which there was no room.
func (d *Deployment) forgetRefusal() {
	if d.unplaced = false; d.failure != nil && d.failure.unplaced {
		d.failure = nil
	}
}

// expireRefusal forgets a refusal that the planner has not repeated.
func (d *Deployment) expireRefusal(now time.Time) {
	if d.failure != nil && d.failure.unplaced && now.Sub(d.refusedAt) >= refusalTimeout {
		d.forgetRefusal()
	}
}

// wokenInVain reports whether requests wait for a deployment that is asleep, and the planner has no room for it and
// will not soon have.
func (d *Deployment) wokenInVain() bool {
	return d.wake.wakes() > 0 && d.failure != nil && d.failure.unplaced && !d.mayRecover()
}
