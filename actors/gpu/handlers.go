package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// retryBusy is when to ask again for a lease that is being freed.
const retryBusy = 100 * time.Millisecond

func (d *device) onLoad(ctx actor.Context, msg *messages.LoadModel) {
	lease, who := msg.GetLease(), asker{msg.GetRequestId(), ctx.Sender()}
	if z := d.resizing[lease]; z != nil && z.done != nil && !d.lost() { // how much there is will be known soon
		z.askers = append(z.askers, who)
		return
	}
	if m, ok := d.held[lease]; ok && !d.lost() {
		if other := otherThan(m, msg); other != nil {
			ctx.Send(who.replyTo, &messages.LoadModelResult{RequestId: who.requestID, FoundRevision: m.Digests.Revision,
				Outcome: &messages.LoadModelResult_Refused{Refused: other}})
			return
		}
		ctx.Send(who.replyTo, d.granted(who.requestID, m, &messages.SwitchMetrics{Source: "device"}, true))
		return
	}
	if _, busy := d.freeing[lease]; busy {
		ctx.Send(who.replyTo, refusedLoad(who.requestID, &messages.Refused{
			Reason: messages.Reason_REASON_NOT_READY, Detail: "lease " + lease + " is being freed",
			RetryAfter: durationpb.New(retryBusy),
		}))
		return
	}
	if d.quarantine != nil {
		ctx.Send(who.replyTo, refusedLoad(who.requestID, d.refusal(d.quarantine.GetDetail())))
		return
	}
	if l, ok := d.loading[lease]; ok {
		l.join(who)
		return
	}
	d.loading[lease] = &load{command: msg, askers: []asker{who}, began: time.Now()}
	models, path, incarnation := d.Models, msg.GetPath(), d.incarnation
	supervise.Job(ctx, d.life,
		func(context.Context) (engine.ModelInfo, error) { return models.Inspect(path) },
		func(f engine.ModelInfo, err error) any { return &inspected{incarnation, lease, f, err} })
}

// join adds one who waits; asking again replaces the first.
func (l *load) join(who asker) {
	for i, a := range l.askers {
		if a.requestID == who.requestID {
			l.askers[i] = who
			return
		}
	}
	l.askers = append(l.askers, who)
}

// onInspected: the sizes are known, and whether there is room.
func (d *device) onInspected(ctx actor.Context, msg *inspected) {
	l := d.loading[msg.lease]
	if msg.incarnation != d.incarnation || l == nil {
		return
	}
	if msg.err != nil {
		d.refuseError(ctx, msg.lease, msg.err)
		return
	}
	l.facts = msg.facts
	if _, over := d.budget().Add(l.facts.Need(l.spec())); over != nil {
		d.refuse(ctx, msg.lease, d.overload(l, over))
		return
	}
	l.counts = true
	d.start(ctx, l)
}

// start takes the pages and reads the weights, or waits until others have given up as much.
func (d *device) start(ctx actor.Context, l *load) {
	lease, fixed := l.command.GetLease(), hbm.PagesOf(l.facts.Need(l.spec()).Fixed)
	share := d.shares()[lease]
	if l.waits = !d.room(ctx, lease, fixed+share.promised, &l.until); l.waits {
		return
	}
	free := int(d.ledger.Free()/hbm.PageBytes) - fixed
	if free < share.promised {
		d.refuse(ctx, lease, noMemory(d.Name+": the replicas there did not give up KV memory that they can do without; it is tried again"))
		return
	}
	load, short := d.reserve(l, int64(min(free, max(share.promised, share.all)))*hbm.PageBytes)
	if short != nil {
		d.refuse(ctx, lease, noMemory(d.Name+": "+short.Error()))
		return
	}
	models, incarnation, busy := d.Models, d.incarnation, &d.jobs
	busy.Add(1)
	supervise.Job(ctx, d.life,
		func(life context.Context) (residency.Loaded, error) {
			defer busy.Done()
			return models.Load(life, load)
		},
		func(m residency.Loaded, err error) any { return &loaded{incarnation, load.Lease, m, err} })
}

func noMemory(detail string) *messages.Refused {
	return &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: detail}
}

// reserve leases pages for a model, its workspace and its KV blocks.
func (d *device) reserve(l *load, kv int64) (engine.LoadSpec, *hbm.Shortage) {
	load := l.spec()
	blockBytes := max(1, l.facts.KVTokenBytes*int64(load.BlockTokens))
	load.KVBlocks = max(0, min(l.facts.KVSize(load).Max(), int(kv/blockBytes)))
	return load, d.lease(load, l.facts, int64(load.KVBlocks)*blockBytes)
}

// spec is what is asked for; how many KV blocks there are is decided last.
func (l *load) spec() engine.LoadSpec {
	c := l.command
	return engine.LoadSpec{
		Lease: c.GetLease(), Path: c.GetPath(), BlockTokens: int(c.GetBlockTokens()), RequestedBlocks: int(c.GetKvBlocks()),
		Limits: limitsOf(c), AdapterPages: int(c.GetAdapterPages()),
		Revision: c.GetRevisionDigest(), Deploy: c.GetDeploy(),
	}
}

func limitsOf(msg *messages.LoadModel) engine.Limits {
	return engine.Limits{
		StepTokens: int(msg.GetStepTokens()), MaxSequences: int(msg.GetMaxSequences()),
		MaxAdapters: int(msg.GetMaxAdapters()), MaxRank: int(msg.GetMaxAdapterRank()),
	}
}

func (d *device) onLoaded(ctx actor.Context, msg *loaded) {
	l := d.loading[msg.lease]
	if msg.incarnation != d.incarnation || l == nil {
		return
	}
	if msg.err != nil {
		d.ledger.Release(msg.lease)
		if errors.Is(msg.err, cuda.ErrDeviceLost) {
			d.condemn(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.err.Error())
		}
		d.refuseError(ctx, msg.lease, msg.err)
		return
	}
	delete(d.loading, msg.lease)
	d.held[msg.lease], d.busy = msg.model, time.Now()
	took := time.Since(l.began)
	d.Log.Info().Str("lease", msg.lease).Int64("bytes", msg.model.Info.WeightBytes).Dur("took", took).Msg("model loaded")
	metrics := &messages.SwitchMetrics{Load: durationpb.New(took), Source: "disk", Bytes: uint64(msg.model.Info.WeightBytes)}
	for _, a := range l.askers {
		ctx.Send(a.replyTo, d.granted(a.requestID, msg.model, metrics, false))
	}
	d.place(ctx)
}

// refuse ends a load and tells everyone who waited for it.
func (d *device) refuse(ctx actor.Context, lease string, why *messages.Refused) {
	d.refuseFound(ctx, lease, why, "")
}

// refuseError is refuse for a load that failed. It says which revision was found in place of the one asked for.
func (d *device) refuseError(ctx actor.Context, lease string, err error) {
	found := ""
	if other := (*engine.RevisionMismatch)(nil); errors.As(err, &other) {
		found = other.Found.Revision
	}
	d.refuseFound(ctx, lease, &messages.Refused{Reason: reasonOf(err), Detail: err.Error()}, found)
}

func (d *device) refuseFound(ctx actor.Context, lease string, why *messages.Refused, found string) {
	d.Log.Warn().Str("lease", lease).Stringer("reason", why.GetReason()).Str("detail", why.GetDetail()).Msg("model refused")
	for _, a := range d.loading[lease].askers {
		refused := refusedLoad(a.requestID, why)
		refused.FoundRevision = found
		ctx.Send(a.replyTo, refused)
	}
	delete(d.loading, lease)
}

func (d *device) onUnload(ctx actor.Context, msg *messages.UnloadModel) {
	lease, who := msg.GetLease(), asker{msg.GetRequestId(), ctx.Sender()}
	if _, busy := d.freeing[lease]; busy {
		d.freeing[lease] = append(d.freeing[lease], who)
		return
	}
	if _, busy := d.loading[lease]; busy {
		ctx.Send(who.replyTo, refusedUnload(who.requestID, messages.Reason_REASON_NOT_READY, "lease "+lease+" is being loaded"))
		return
	}
	if _, ok := d.held[lease]; !ok {
		ctx.Send(who.replyTo, freed(who.requestID, lease, 0))
		return
	}
	d.free(ctx, lease, []asker{who})
}

// free gives a lease's memory back, in a job, and tells who waits for it.
func (d *device) free(ctx actor.Context, lease string, askers []asker) {
	d.freeing[lease] = askers
	models, incarnation, busy := d.Models, d.incarnation, &d.jobs
	var resized <-chan struct{}
	if z := d.resizing[lease]; z != nil {
		resized = z.done
		delete(d.resizing, lease)
	}
	busy.Add(1)
	supervise.Job(ctx, d.life,
		func(context.Context) (int64, error) {
			defer busy.Done()
			if resized != nil {
				<-resized
			}
			return models.Unload(lease)
		},
		func(bytes int64, err error) any { return &unloaded{incarnation, lease, bytes, err} })
}

func (d *device) onUnloaded(ctx actor.Context, msg *unloaded) {
	if msg.incarnation != d.incarnation {
		return
	}
	askers := d.freeing[msg.lease]
	delete(d.freeing, msg.lease)
	d.busy = time.Now()
	if msg.err == nil {
		delete(d.held, msg.lease)
		delete(d.users, msg.lease)
		delete(d.fixed, msg.lease)
		d.ledger.Release(msg.lease)
		ctx.Send(d.hbm, &messages.BlocksReleased{Lease: msg.lease})
		d.Log.Info().Str("lease", msg.lease).Int64("bytes", msg.bytes).Msg("model unloaded")
	}
	for _, a := range askers {
		if msg.err != nil {
			ctx.Send(a.replyTo, refusedUnload(a.requestID, messages.Reason_REASON_CONFLICT, msg.err.Error()))
			continue
		}
		ctx.Send(a.replyTo, freed(a.requestID, msg.lease, msg.bytes))
	}
	d.place(ctx)
}

func (d *device) granted(requestID string, m residency.Loaded, metrics *messages.SwitchMetrics, adopted bool) *messages.LoadModelResult {
	return &messages.LoadModelResult{RequestId: requestID, Outcome: &messages.LoadModelResult_Loaded{Loaded: &messages.ModelLoaded{
		Lease: m.Lease, Device: d.Name, KvBlocks: uint32(m.KVBlocks), KvBlockBytes: uint64(m.KVBlockBytes),
		ContextTokens: uint32(m.Info.ContextTokens), Vocab: uint32(m.Info.Vocab), Eos: m.Info.EOS,
		Metrics: metrics, Adopted: adopted, AdapterPages: uint32(m.AdapterPages), KvBlocksAlone: uint32(d.alone(m)),
		WeightsDigest: m.Digests.Weights, RevisionDigest: m.Digests.Revision,
	}}}
}

// otherThan says why a lease is not what is asked for: it was loaded from other files, or nobody knows yet
// whether it was.
func otherThan(m residency.Loaded, asked *messages.LoadModel) *messages.Refused {
	switch want := asked.GetRevisionDigest(); {
	case want != "" && m.Digests.Revision != want:
		return &messages.Refused{
			Reason: messages.Reason_REASON_WEIGHTS_DIFFER,
			Detail: fmt.Sprintf("lease %s holds revision %s, not %s as asked for; it is loaded again once the lease is given back",
				m.Lease, digest.Short(m.Digests.Revision), digest.Short(want)),
		}
	case want == "" && m.Deploy != asked.GetDeploy():
		return &messages.Refused{
			Reason: messages.Reason_REASON_CONFLICT,
			Detail: "lease " + m.Lease +
				" was loaded before the last models.deploy; it is loaded again once the lease is given back",
		}
	}
	return nil
}

func refusedLoad(requestID string, r *messages.Refused) *messages.LoadModelResult {
	return &messages.LoadModelResult{RequestId: requestID, Outcome: &messages.LoadModelResult_Refused{Refused: r}}
}

func freed(requestID, lease string, bytes int64) *messages.UnloadModelResult {
	return &messages.UnloadModelResult{RequestId: requestID, Outcome: &messages.UnloadModelResult_Unloaded{
		Unloaded: &messages.ModelUnloaded{Lease: lease, Bytes: uint64(bytes)},
	}}
}

func refusedUnload(requestID string, reason messages.Reason, detail string) *messages.UnloadModelResult {
	return &messages.UnloadModelResult{RequestId: requestID, Outcome: &messages.UnloadModelResult_Refused{
		Refused: &messages.Refused{Reason: reason, Detail: detail},
	}}
}
