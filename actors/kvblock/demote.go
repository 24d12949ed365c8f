package kvblock

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
)

// demoteDone and retryDemote are messages to self.
type (
	demoteDone struct {
		incarnation uint64
		blocks      []kv.Demotion
		outcomes    []outcome // of each block
		err         error
	}
	retryDemote struct{ incarnation uint64 }
)

// demote starts the next job that copies leaving blocks to the tier below. Blocks whose slab is
// being reassigned come first.
func (s *tierActor) demote(ctx actor.Context) {
	if s.Below == nil || s.demoting {
		return
	}
	if len(s.demotions) == 0 {
		s.demotions = s.tier.SelectDemotions()
		slices.SortStableFunc(s.demotions, func(a, b kv.Demotion) int { return a.Size - b.Size })
	}
	s.demotions = append(s.tier.SelectSlabDemotions(), s.demotions...)
	if len(s.demotions) == 0 {
		return
	}
	s.demoting = true
	s.demoteJobs++
	d := demoteJob{
		tier: s.Name, name: fmt.Sprintf("%s-%d-%d", s.Name, s.incarnation, s.demoteJobs), report: s.OnDemoted,
		from: s.Store, to: *s.Below, root: ctx.ActorSystem().Root, blocks: s.nextBatch(),
	}
	incarnation := s.incarnation
	supervise.Job(ctx, s.lifetime, d.run, func(outcomes []outcome, err error) any {
		return &demoteDone{incarnation, d.blocks, outcomes, err}
	})
}

// nextBatch takes the blocks to copy together: the first ones that are due and of one size.
func (s *tierActor) nextBatch() (blocks []kv.Demotion) {
	n := 1
	for n < min(maxBatch, len(s.demotions)) && s.demotions[n].Size == s.demotions[0].Size {
		n++
	}
	blocks, s.demotions = s.demotions[:n:n], s.demotions[n:]
	return blocks
}

func (s *tierActor) onDemoteDone(ctx actor.Context, msg *demoteDone) {
	if msg.incarnation != s.incarnation {
		return
	}
	if s.demoting = msg.err != nil; s.demoting {
		supervise.After(ctx, demoteRetryDelay, &retryDemote{s.incarnation})
		s.Log.Warn().Err(msg.err).Str("tier", s.Name).Msg("demotion failed")
	}
	s.tier.SetLowerAvailable(!s.demoting)
	for i, b := range msg.blocks {
		how := notCopied
		if i < len(msg.outcomes) {
			how = msg.outcomes[i]
		}
		if how == damagedSource {
			s.drop(b.Hash)
		}
		s.tier.DemotionDone(b.Slot, how == stored)
	}
	if s.demoting {
		for _, b := range s.demotions {
			s.tier.DemotionDone(b.Slot, false)
		}
		s.demotions = nil
	}
	s.demote(ctx)
}

// onRetryDemote resumes demotion after a pause for a failed copy.
func (s *tierActor) onRetryDemote(ctx actor.Context, msg *retryDemote) {
	if msg.incarnation == s.incarnation {
		s.demoting = false
		s.tier.SetLowerAvailable(true)
		s.demote(ctx)
	}
}
