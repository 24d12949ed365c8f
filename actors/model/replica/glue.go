package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
	core "troupe/core/replica"
	"troupe/messages"
)

const (
	retryAfter     = 20 * time.Millisecond // RetryAfter of refusals that end soon
	retryQueueFull = time.Second
)

func (r *replica) queued(ctx actor.Context, e core.Queued) {
	r.markPending(ctx, e.ID)
	if e.Early {
		r.lookupAhead(ctx)
	}
}

func (r *replica) prefillMeasured(e core.PrefillMeasured) {
	if r.kvTiers != nil {
		r.kvTiers.restores.Prefilled(e.Tokens, e.Took)
	}
}

func (r *replica) scheduleReport(ctx actor.Context) { r.Perform(ctx, r.machine.ReportSoon()) }
func (r *replica) publishBlocks(ctx actor.Context)  { r.Perform(ctx, r.machine.PublishBlocks()) }

// AddAdapter implements migration.Host.
func (r *replica) AddAdapter(ctx actor.Context, spec *messages.AdapterSpec) {
	if spec != nil {
		r.addAdapter(spec)
		r.Perform(ctx, r.machine.Want())
	}
}

// Request implements migration.Host.
func (r *replica) Request(ctx actor.Context, id string, seq *messages.SequenceSpec, output []uint32) batch.Request {
	return r.base().Request(id, seq, output, supervise.Now(ctx))
}

// setNamespace enables offload if the revision is known. Blocks are valid only for the same files
// and the same layout.
func (r *replica) setNamespace(l *kvTiers) {
	if d := r.model.GetRevisionDigest(); d != "" {
		l.namespace, l.ready = kv.Root(l.down.Layout(), d, nil), true
	}
}

var (
	refusal = wire.Refusal
	bytesOf = wire.Bytes
)
