package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
)

// travels reports whether there is a place for blocks beside HBM.
func (r *replica) travels() bool { return len(r.Tiers.Lower) > 0 || r.Tiers.Remote != nil }

// nameWeights finds out whose blocks are the same as those of this replica, while it loads.
func (r *replica) nameWeights(ctx actor.Context) {
	if r.Bulk == nil || r.Router == nil {
		r.Tiers.Remote = nil
	}
	if r.travels() {
		incarnation := r.incarnation
		supervise.Job(ctx, r.life, r.Tiers.Space, func(space string, err error) any { return &spaced{incarnation, space, err} })
	}
}

func (r *replica) onSpaced(ctx actor.Context, msg *spaced) {
	switch {
	case msg.incarnation != r.incarnation || r.ending:
	case msg.err != nil:
		r.Log.Error().Err(msg.err).Msg("no block travels: it is not known which weights these are")
	default:
		r.space = &msg.space
		r.settleSpace()
		r.changed(ctx)
	}
}

// settleSpace lets blocks travel once it is known both what they are of and how they are laid out.
func (r *replica) settleSpace() {
	if l := r.lower; l != nil && r.space != nil {
		l.space, l.ready = kv.Root(l.down.Layout(), *r.space, nil), true
	}
}
