package gpu

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/turns"
	"troupe/messages"
)

// shareWindow is the time over which the share of a device's time is averaged.
const shareWindow = 10 * time.Second

// use is the device time that a replica uses, as it reports it.
type use struct {
	at       time.Time     // of the last report
	stepTime time.Duration // of all steps of its incarnation
	share    float64       // of the device's time, averaged
}

// keepUse counts the steps of a replica, and derives its share of the device's time from a report.
func (d *device) keepUse(ctx actor.Context, msg *messages.KVReport) {
	now, stepTime := supervise.Now(ctx), msg.GetStepTime().AsDuration()
	d.window.Report(msg.GetLease(), msg.GetStarted(), countersOf(msg), now)
	u := d.uses[msg.GetLease()]
	if u == nil {
		u = &use{}
		d.uses[msg.GetLease()] = u
	}
	if passed := now.Sub(u.at); !u.at.IsZero() && passed > 0 && stepTime >= u.stepTime {
		part := min(1, passed.Seconds()/shareWindow.Seconds())
		u.share += part * ((stepTime-u.stepTime).Seconds()/passed.Seconds() - u.share)
	}
	u.at, u.stepTime = now, stepTime
}

// turnsStatus returns how the replicas with memory on the device share its time.
func (d *device) turnsStatus() (all []*messages.GpuTurns) {
	for _, s := range d.sharing.machine.Status() {
		t := &messages.GpuTurns{Replica: s.Replica, State: s.State.String(), Weight: s.Weight, Turns: s.Turns,
			Waited: durationpb.New(s.Waited), Overdue: d.overdueOf(s)}
		if u := d.uses[s.Replica]; u != nil {
			t.Share = u.share
		}
		all = append(all, t)
	}
	return all
}

func (d *device) overdueOf(s turns.Status) uint64 {
	if m := d.sharing.members[s.Replica]; m != nil {
		return m.overdue
	}
	return 0
}
