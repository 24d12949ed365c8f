package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	announceEvery = 300 * time.Millisecond
	announceBytes = 4 << 10 // of blocks in one announcement; the others come with the next ones
	shortBytes    = 8       // of a block in an announcement
)

// beat is a note to self.
type beat struct{ incarnation uint64 }

func (r *replica) onBeat(ctx actor.Context, msg *beat) {
	if msg.incarnation != r.incarnation {
		return
	}
	if time.Since(r.announced) >= announceEvery {
		r.announceTo(ctx, false)
	}
	supervise.After(ctx, announceEvery, msg)
}

// announceTo tells the router how the replica is, and what changed in its blocks or everything.
func (r *replica) announceTo(ctx actor.Context, everything bool) {
	if r.Router == nil {
		return
	}
	msg := &messages.ReplicaAnnounced{Status: r.status(ctx), Snapshot: r.news == nil}
	if r.news != nil {
		n, _ := r.news.Next()
		if everything && !n.Snapshot {
			n = r.news.Snapshot()
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
		r.announceTo(ctx, true)
	}
}

// enter changes the state and tells the deployment and the router.
func (r *replica) enter(ctx actor.Context, state messages.ReplicaState) {
	r.state = state
	r.Log.Info().Str("replica", r.Spec.GetName()).Stringer("state", state).Uint64("incarnation", r.incarnation).Msg("replica changed")
	r.inform(ctx)
}

func (r *replica) inform(ctx actor.Context) {
	ctx.Request(r.Deployment, &messages.ReplicaChanged{Status: r.status(ctx), Failure: r.failure})
	r.announceTo(ctx, false)
}

// changed sees to it that the deployment learns of the load soon.
func (r *replica) changed(ctx actor.Context) {
	if !r.reporting {
		r.reporting = true
		supervise.After(ctx, reportEvery, &report{r.incarnation})
	}
}

func (r *replica) onReport(ctx actor.Context, msg *report) {
	if msg.incarnation == r.incarnation {
		r.reporting = false
		r.inform(ctx)
	}
}
