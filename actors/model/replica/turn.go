package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/messages"
)

// turns returns the converter of this incarnation's messages about turns.
func (r *replica) turns() wire.Turns {
	return wire.Turns{Replica: r.Spec.GetName(), Started: r.started}
}

// onTurnGranted takes a turn, unless an earlier incarnation asked for it. The gpu actor knows since the
// start of this one that the earlier has no turn.
func (r *replica) onTurnGranted(ctx actor.Context, msg *messages.TurnGranted) {
	if msg.GetStarted() == r.started {
		r.Perform(ctx, r.machine.Granted(msg.GetNumber(), msg.GetOpen(), supervise.Now(ctx)))
	}
}

func (r *replica) onRecallTurn(ctx actor.Context, msg *messages.RecallTurn) {
	if msg.GetNumber() == 0 {
		r.Perform(ctx, r.machine.DeviceRestarted(supervise.Now(ctx)))
		return
	}
	r.Perform(ctx, r.machine.Recalled(msg.GetNumber(), supervise.Now(ctx)))
}

// onOverdue handles the gpu actor's report that the turn lasts too long.
func (r *replica) onOverdue(msg *messages.ReplicaOverdue) {
	r.Log.Warn().Str("replica", r.Spec.GetName()).Uint64("turn", msg.GetNumber()).
		Dur("lasted", msg.GetLasted().AsDuration()).Dur("estimate", msg.GetEstimate().AsDuration()).
		Msg("turn overdue; other replicas run meanwhile")
}
