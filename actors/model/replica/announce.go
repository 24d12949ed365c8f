package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	announceEvery    = 300 * time.Millisecond
	announceBytes    = 4 << 10 // limit of block changes in one announcement; the rest follows in later ones
	fingerprintBytes = 8       // of one block in an announcement
)

// announceTick is a message to self.
type announceTick struct{ incarnation uint64 }

func (r *replica) onAnnounceTick(ctx actor.Context, msg *announceTick) {
	if msg.incarnation != r.incarnation {
		return
	}
	if time.Since(r.announced) >= announceEvery {
		r.announceToRouter(ctx, false)
	}
	supervise.After(ctx, announceEvery, msg)
}

// announceToRouter sends the router the replica's status and either the changes of its blocks or a
// snapshot of all.
func (r *replica) announceToRouter(ctx actor.Context, everything bool) {
	if r.Router == nil {
		return
	}
	msg := &messages.ReplicaAnnounced{Status: r.status(ctx), Snapshot: r.announcer == nil}
	if r.announcer != nil {
		n, _ := r.announcer.Next()
		if everything && !n.Snapshot {
			n = r.announcer.Snapshot()
		}
		msg.Evicted, msg.Committed, msg.Snapshot = n.Evicted, n.Committed, n.Snapshot
	}
	r.announced = time.Now()
	ctx.Request(r.Router, msg)
}

// onGetReplica answers with the status. The router also gets a snapshot of the blocks.
func (r *replica) onGetReplica(ctx actor.Context) {
	ctx.Respond(r.status(ctx))
	if r.Router != nil && r.Router.Equal(ctx.Sender()) {
		r.announceToRouter(ctx, true)
	}
}

// setState changes the state and publishes the status.
func (r *replica) setState(ctx actor.Context, state messages.ReplicaState) {
	r.state = state
	r.Log.Info().Str("replica", r.Spec.GetName()).Stringer("state", state).Uint64("incarnation", r.incarnation).
		Msg("replica state changed")
	r.publishStatus(ctx)
}

func (r *replica) publishStatus(ctx actor.Context) {
	ctx.Request(r.Deployment, &messages.ReplicaChanged{Status: r.status(ctx), Failure: r.failure})
	r.announceToRouter(ctx, false)
}

// scheduleReport publishes the status soon, at most once per reportEvery.
func (r *replica) scheduleReport(ctx actor.Context) {
	if !r.reportPending {
		r.reportPending = true
		supervise.After(ctx, reportEvery, &reportTick{r.incarnation})
	}
}

func (r *replica) onReportTick(ctx actor.Context, msg *reportTick) {
	if msg.incarnation == r.incarnation {
		r.reportPending = false
		r.publishStatus(ctx)
	}
}
