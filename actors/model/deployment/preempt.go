package deployment

import (
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	core "troupe/core/deployment"
	"troupe/core/preempt"
	"troupe/messages"
)

func preemptionsOf(all []*messages.Preemption) (stored []core.Preemption) {
	for _, p := range all {
		stored = append(stored, core.Preemption{
			ID: p.GetId(), Replica: p.GetReplica(), Deadline: p.GetDeadline().AsTime(), Drop: p.GetDrop(),
			Park: p.GetPark(),
			At:   core.Location{Node: p.GetNode(), GPU: p.GetGpu()},
		})
	}
	return stored
}

func countsOf(d *messages.DepartureCounts) preempt.Counts {
	return preempt.Counts{Migrated: int(d.GetMigrated()), Finished: int(d.GetFinished()),
		Requeued: int(d.GetRequeued()), Saved: int(d.GetSaved())}
}

var preemptionPhases = map[preempt.Phase]messages.PreemptionPhase{
	preempt.Fencing:   messages.PreemptionPhase_PREEMPTION_PHASE_FENCING,
	preempt.Migrating: messages.PreemptionPhase_PREEMPTION_PHASE_MIGRATING,
	preempt.Finishing: messages.PreemptionPhase_PREEMPTION_PHASE_FINISHING,
	preempt.Saving:    messages.PreemptionPhase_PREEMPTION_PHASE_SAVING,
	preempt.Freeing:   messages.PreemptionPhase_PREEMPTION_PHASE_FREEING,
	preempt.Ended:     messages.PreemptionPhase_PREEMPTION_PHASE_ENDED,
}

func preemptionStatus(p core.PreemptionStatus) *messages.PreemptionStatus {
	c := p.Counts
	s := &messages.PreemptionStatus{
		Preemption: &messages.Preemption{
			Id: p.ID, Replica: p.Replica, Deadline: timestamppb.New(p.Deadline), Drop: p.Drop,
			Park: p.Park, Node: p.At.Node, Gpu: p.At.GPU,
		},
		Phase: preemptionPhases[p.Phase], Blocks: uint32(p.Blocks), Detail: p.Detail,
		Sequences: &messages.DepartureCounts{Migrated: uint32(c.Migrated), Finished: uint32(c.Finished),
			Requeued: uint32(c.Requeued), Saved: uint32(c.Saved)},
	}
	for phase, took := range p.Times {
		if took > 0 {
			s.Times = append(s.Times, &messages.PreemptionTime{
				Phase: preemptionPhases[preempt.Phase(phase)], Time: durationpb.New(took),
			})
		}
	}
	return s
}

// noticePreemption logs and publishes a new phase of a preemption.
func (d *deployment) noticePreemption(e core.Preempting) {
	c := e.Progress.Counts
	d.Log.Info().Str("replica", e.Replica).Stringer("phase", e.Phase).Int("migrated", c.Migrated).
		Int("finished", c.Finished).Int("requeued", c.Requeued).Int("saved", c.Saved).Msg("replica preempting")
	kind := "replica.preempting"
	if e.Phase == preempt.Ended {
		kind = "replica.preempted"
	}
	detail := fmt.Sprintf("%s: %d sequences migrated, %d finished, %d requeued, of which %d saved", e.Phase,
		c.Migrated, c.Finished, c.Requeued, c.Saved)
	if e.Progress.Detail != "" {
		detail += "; " + e.Progress.Detail
	}
	d.Publish(kind, e.Replica, detail)
}
