package deployment

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/deployment"
)

// wake is when requests woke the deployment, and the revision of the spec that the wake replaces.
type wake struct {
	at       time.Time
	revision uint64
}

// observeWake reports the time from a wake to the first replica that serves. It forgets a wake after
// which the deployment rests again.
func (d *deployment) observeWake(ctx actor.Context) {
	if d.wake == (wake{}) || d.revision == d.wake.revision {
		return
	}
	s := d.machine.Status()
	switch s.Condition {
	case core.ConditionAsleep, core.ConditionStopped, core.ConditionParked, core.ConditionStandby:
		d.wake = wake{}
		return
	}
	if s.Serving > 0 {
		d.OnAwake(d.Name, supervise.Now(ctx).Sub(d.wake.at))
		d.wake = wake{}
	}
}
