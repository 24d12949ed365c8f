package replica

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	core "troupe/core/replica"
	"troupe/messages"
)

func (r *replica) status(ctx actor.Context) *messages.ReplicaStatus {
	s := wire.Status(r.machine.Status(), r.Spec, r.model)
	s.Incarnation, s.Loads = r.incarnation, r.kept.loads
	s.Actor = &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()}
	s.AdapterCounts, s.Backend = r.adapterCounts, backendStatus(r.Spec)
	if s.GetState() == messages.ReplicaState_REPLICA_STATE_FAILED {
		s.Failure = r.failure
	}
	r.tiering.AddCounts(s)
	return s
}

// onGetReplica answers with the status. If the router asks, it also sends a snapshot of the blocks.
func (r *replica) onGetReplica(ctx actor.Context) {
	ctx.Respond(r.status(ctx))
	if r.Router != nil && r.Router.Equal(ctx.Sender()) {
		r.Perform(ctx, r.machine.AnnounceAll(supervise.Now(ctx)))
	}
}

// announce sends the status and the changes of the blocks to the router.
func (r *replica) announce(ctx actor.Context, e core.Announce) {
	msg := wire.Announcement(e)
	msg.Status = r.status(ctx)
	ctx.Request(r.Router, msg)
}

func (r *replica) stateChanged(state core.State) {
	r.Log.Info().Str("replica", r.Spec.GetName()).Stringer("state", wire.State(state)).
		Uint64("incarnation", r.incarnation).Msg("replica state changed")
}

// kvShrunk answers a ShrinkKV.
func (r *replica) kvShrunk(ctx actor.Context, e core.KVShrunk) {
	ctx.Request(r.GPU, &messages.KVShrunk{Lease: r.model.GetLease(), Attempt: e.Attempt,
		Refused: wire.Refused(e.Refusal)})
}

func (r *replica) title() string { return "replica " + r.Spec.GetName() }

func (r *replica) faultBegan(e core.FaultBegan) {
	r.Log.Error().Str("replica", r.Spec.GetName()).Str("fault", e.Detail).Msg("replica is faulty; routers avoid it")
	r.publish("replica.faulty", e.Detail)
}

func (r *replica) faultEnded(e core.FaultEnded) {
	r.Log.Info().Str("replica", r.Spec.GetName()).Dur("after", e.After).Msg("replica returns to service")
	r.publish("replica.recovered", "its step ended; it was "+e.Detail)
}

func (r *replica) verified(e core.Verified) {
	r.Log.Info().Str("replica", r.Spec.GetName()).Dur("took", e.Took).Msg("weights verified after standby")
	r.publish("replica.verified", fmt.Sprintf("its weights gave the tokens of the first load after standby, in %v",
		e.Took.Round(time.Microsecond)))
}

func (r *replica) folderChanged(e core.FolderChanged) {
	r.Log.Warn().Str("replica", r.Spec.GetName()).Str("fault", e.Fault).Str("source", e.Elsewhere).
		Msg("model folder changed")
	if e.Elsewhere != "" {
		r.publish("folder.missing", e.Fault+"; until then its weights would be loaded from "+e.Elsewhere)
	}
}

// publish publishes an event of the life cycle.
func (r *replica) publish(kind, detail string) {
	if r.Publish != nil {
		r.Publish(kind, r.Spec.GetName(), detail)
	}
}
