package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	announceEvery    = 300 * time.Millisecond
	announceBytes    = 4 << 10 // of blocks in one announcement; the others come with the next ones
	fingerprintBytes = 8       // of a block in an announcement
)

// beat is a note to self.
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

// announceToRouter tells the router how the replica is, and what scheduleReport in its blocks or everything.
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

// onGetReplica answers anyone, and the router with everything.
func (r *replica) onGetReplica(ctx actor.Context) {
	ctx.Respond(r.status(ctx))
	if r.Router != nil && r.Router.Equal(ctx.Sender()) {
		r.announceToRouter(ctx, true)
	}
}

// enter changes the state and tells the deployment and the router.
func (r *replica) setState(ctx actor.Context, state messages.ReplicaState) {
	r.state = state
	r.Log.Info().Str("replica", r.Spec.GetName()).Stringer("state", state).Uint64("incarnation", r.incarnation).
		Msg("replica changed")
	r.publishStatus(ctx)
}

func (r *replica) publishStatus(ctx actor.Context) {
	ctx.Request(r.Deployment, &messages.ReplicaChanged{Status: r.status(ctx), Failure: r.failure})
	r.announceToRouter(ctx, false)
}

// scheduleReport sees to it that the deployment learns of the load soon.
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
