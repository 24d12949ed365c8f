package kvblock

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	announceEvery = 300 * time.Millisecond
	announceBytes = 4 << 10   // of blocks in one announcement
	believedBytes = 512 << 10 // of blocks that routers believe of one tier: the 65,536 newest
)

// beat is a note to self.
type beat struct{ incarnation uint64 }

// onBeat tells the router what changed in the blocks.
func (s *slots) onBeat(ctx actor.Context, msg *beat) {
	if msg.incarnation != s.incarnation {
		return
	}
	supervise.After(ctx, announceEvery, msg)
	s.announce(ctx, false)
}

func (s *slots) announce(ctx actor.Context, everything bool) {
	s.news.Apply(s.tier.Changes())
	if s.Router == nil {
		return
	}
	n, some := s.news.Next()
	if everything && !n.Snapshot {
		n, some = s.news.Snapshot(), true
	}
	if some {
		ctx.Send(s.Router, &messages.TierAnnounced{
			Name: s.Name, Actor: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
			Committed: n.Committed, Evicted: n.Evicted, Snapshot: n.Snapshot,
		})
	}
}

// onGet answers anyone, and the router with everything.
func (s *slots) onGet(ctx actor.Context) {
	ctx.Respond(s.status())
	if s.Router != nil && s.Router.Equal(ctx.Sender()) {
		s.announce(ctx, true)
	}
}
