package kvblock

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
)

// departed and rested are notes to self.
type (
	departed struct {
		incarnation uint64
		blocks      []kv.Demotion
		left        []left // of each block
		err         error
	}
	rested struct{ incarnation uint64 }
)

// depart has the next blocks copied down that are to leave: first those whose slab is waited for.
func (s *slots) depart(ctx actor.Context) {
	if s.Below == nil || s.moving {
		return
	}
	if len(s.due) == 0 {
		s.due = s.tier.SelectDemotions()
		slices.SortStableFunc(s.due, func(a, b kv.Demotion) int { return a.Size - b.Size })
	}
	s.due = append(s.tier.SelectSlabDemotions(), s.due...)
	if len(s.due) == 0 {
		return
	}
	s.moving = true
	s.descents++
	d := descent{
		tier: s.Name, name: fmt.Sprintf("%s-%d-%d", s.Name, s.incarnation, s.descents), copied: s.Copied,
		from: s.Store, to: *s.Below, root: ctx.ActorSystem().Root, blocks: s.next(),
	}
	incarnation := s.incarnation
	supervise.Job(ctx, s.life, d.run, func(left []left, err error) any { return &departed{incarnation, d.blocks, left, err} })
}

// next takes the blocks that are copied down together: the first that are due, as long as they are of one size.
func (s *slots) next() (blocks []kv.Demotion) {
	n := 1
	for n < min(together, len(s.due)) && s.due[n].Size == s.due[0].Size {
		n++
	}
	blocks, s.due = s.due[:n:n], s.due[n:]
	return blocks
}

func (s *slots) onDeparted(ctx actor.Context, msg *departed) {
	if msg.incarnation != s.incarnation {
		return
	}
	if s.moving = msg.err != nil; s.moving {
		supervise.After(ctx, restFor, &rested{s.incarnation})
		s.Log.Warn().Err(msg.err).Str("tier", s.Name).Msg("blocks not copied down")
	}
	s.tier.SetLowerAvailable(!s.moving)
	for i, b := range msg.blocks {
		how := stays
		if i < len(msg.left) {
			how = msg.left[i]
		}
		if how == broken {
			s.drop(b.Hash)
		}
		s.tier.DemotionDone(b.Slot, how == below)
	}
	if s.moving {
		for _, b := range s.due {
			s.tier.DemotionDone(b.Slot, false)
		}
		s.due = nil
	}
	s.depart(ctx)
}

// onRested: the tier below could not be copied to for a while. Try again.
func (s *slots) onRested(ctx actor.Context, msg *rested) {
	if msg.incarnation == s.incarnation {
		s.moving = false
		s.tier.SetLowerAvailable(true)
		s.depart(ctx)
	}
}
