package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/batch"
	"troupe/messages"
)

// dropNotFinite ends the sequences of a step whose logits are NaN or infinite, since no token can
// be chosen. The other sequences of the step are unaffected, because no sequence's computation
// depends on another's. The blocks of such a sequence are discarded, also those that it shared:
// they may be the source of the NaN.
func (r *replica) dropNotFinite(ctx actor.Context, entries []batch.Entry, tokens []*messages.SampledToken) {
	for _, e := range entries {
		if !e.Sample {
			continue
		}
		bad := tokens[0].GetNotFinite()
		tokens = tokens[1:]
		if c, ok := r.sequences[e.ID]; ok && bad {
			r.endNotFinite(ctx, e.ID, c.spec.GetAdapterSpec())
		}
	}
}

func (r *replica) endNotFinite(ctx actor.Context, id string, adapter *messages.AdapterSpec) {
	subject := "model " + r.Spec.GetModel()
	if adapter != nil {
		subject = "adapter " + adapter.Key() + " of " + subject
	}
	r.totals.notFinite++
	r.lastNotFinite = subject + " at " + time.Now().UTC().Format(time.RFC3339)
	r.Log.Error().Str("request", id).Str("model", r.Spec.GetModel()).Str("adapter", adapter.Key()).
		Msg("sequence ended: its logits are NaN or infinite; check the weights")
	r.interrupt(ctx, id, &messages.Refused{
		Reason: messages.Reason_REASON_NUMERIC,
		Detail: subject + " computed NaN or infinity for this request; " +
			"check its weights, or run it without the adapter",
	})
	r.batch.Discard(id)
	r.drop(ctx, id, "its logits are not finite")
}
