package kvblock

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	announceInterval = 300 * time.Millisecond
	announceBytes    = 4 << 10   // size of one announcement
	knownBytes       = 512 << 10 // blocks of one tier that routers know: the newest 65,536
)

// announceTick is a message to self.
type announceTick struct{ incarnation uint64 }

// onAnnounceTick announces to the router which blocks changed.
func (s *tierActor) onAnnounceTick(ctx actor.Context, msg *announceTick) {
	if msg.incarnation != s.incarnation {
		return
	}
	supervise.After(ctx, announceInterval, msg)
	s.announce(ctx, false)
}

func (s *tierActor) announce(ctx actor.Context, everything bool) {
	s.announcer.Apply(s.tier.Changes())
	if s.Router == nil {
		return
	}
	n, some := s.announcer.Next()
	if everything && !n.Snapshot {
		n, some = s.announcer.Snapshot(), true
	}
	if some {
		ctx.Send(s.Router, &messages.TierAnnounced{
			Name: s.Name, Actor: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
			Committed: n.Committed, Evicted: n.Evicted, Snapshot: n.Snapshot,
		})
	}
}

// onGet responds with the status. To the router it also sends a full announcement.
func (s *tierActor) onGet(ctx actor.Context) {
	ctx.Respond(s.status())
	if s.Router != nil && s.Router.Equal(ctx.Sender()) {
		s.announce(ctx, true)
	}
}
