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

// retryBusy is the retry delay for a lease that is being freed.
const retryBusy = 100 * time.Millisecond

func (d *device) onLoad(ctx actor.Context, msg *messages.LoadModel) {
	lease, req := msg.GetLease(), requester{msg.GetRequestId(), ctx.Sender()}
	if z := d.resizing[lease]; z != nil && z.done != nil && !d.isLost() { // answered when the resize ends
		z.requesters = append(z.requesters, req)
		return
	}
	if m, ok := d.held[lease]; ok && !d.isLost() {
		if other := leaseMismatch(m, msg); other != nil {
			ctx.Send(req.replyTo, &messages.LoadModelResult{RequestId: req.requestID,
				FoundRevision: m.Digests.Revision,
				Outcome:       &messages.LoadModelResult_Refused{Refused: other}})
			return
		}
		ctx.Send(req.replyTo, d.loadedResult(req.requestID, m, &messages.SwitchMetrics{Source: "device"}, true))
		return
	}
	if _, busy := d.freeing[lease]; busy {
		ctx.Send(req.replyTo, refusedLoad(req.requestID, &messages.Refused{
			Reason: messages.Reason_REASON_NOT_READY, Detail: "lease " + lease + " is being freed",
			RetryAfter: durationpb.New(retryBusy),
		}))
		return
	}
	if d.quarantine != nil {
		ctx.Send(req.replyTo, refusedLoad(req.requestID, d.quarantineRefusal(d.quarantine.GetDetail())))
		return
	}
	if l, ok := d.loading[lease]; ok {
		l.join(req)
		return
	}
	d.loading[lease] = &load{command: msg, requesters: []requester{req}, started: time.Now()}
	models, path, incarnation := d.Models, msg.GetPath(), d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (engine.ModelInfo, error) { return models.Inspect(path) },
		func(f engine.ModelInfo, err error) any { return &inspected{incarnation, lease, f, err} })
}

// join adds a requester. A repeated request replaces the first one.
func (l *load) join(req requester) {
	for i, a := range l.requesters {
		if a.requestID == req.requestID {
			l.requesters[i] = req
			return
		}
	}
	l.requesters = append(l.requesters, req)
}

// onInspected checks the model's sizes against the budget and starts the load.
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
		d.refuse(ctx, msg.lease, d.overloadRefusal(l, over))
		return
	}
	l.budgeted = true
	d.start(ctx, l)
}

// start leases the pages and loads the weights, or waits until replicas yield enough memory.
func (d *device) start(ctx actor.Context, l *load) {
	lease, fixed := l.command.GetLease(), hbm.PagesOf(l.facts.Need(l.spec()).Fixed)
	share := d.shares()[lease]
	if l.waiting = !d.makeRoom(ctx, lease, fixed+share.guaranteed, &l.deadline); l.waiting {
		return
	}
	free := int(d.ledger.Free()/hbm.PageBytes) - fixed
	if free < share.guaranteed {
		d.refuse(ctx, lease, noMemory(d.Name+": replicas did not yield KV memory in time; the load is retried"))
		return
	}
	load, short := d.leaseForLoad(l, int64(min(free, max(share.guaranteed, share.full)))*hbm.PageBytes)
	if short != nil {
		d.refuse(ctx, lease, noMemory(d.Name+": "+short.Error()))
		return
	}
	models, incarnation, jobs := d.Models, d.incarnation, &d.jobs
	jobs.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (residency.Loaded, error) {
			defer jobs.Done()
			return models.Load(life, load)
		},
		func(m residency.Loaded, err error) any { return &loaded{incarnation, load.Lease, m, err} })
}

func noMemory(detail string) *messages.Refused {
	return &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: detail}
}

// leaseForLoad leases pages for a model, its workspace and its KV blocks.
func (d *device) leaseForLoad(l *load, kv int64) (engine.LoadSpec, *hbm.Shortage) {
	load := l.spec()
	blockBytes := max(1, l.facts.KVTokenBytes*int64(load.BlockTokens))
	load.KVBlocks = max(0, min(l.facts.KVSize(load).Max(), int(kv/blockBytes)))
	return load, d.leaseModel(load, l.facts, int64(load.KVBlocks)*blockBytes)
}

// spec returns the requested load. The number of KV blocks is set later, in leaseForLoad.
func (l *load) spec() engine.LoadSpec {
	c := l.command
	return engine.LoadSpec{
		Lease: c.GetLease(), Path: c.GetPath(), BlockTokens: int(c.GetBlockTokens()),
		RequestedBlocks: int(c.GetKvBlocks()),
		Limits:          limitsOf(c), AdapterPages: int(c.GetAdapterPages()),
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
			d.startQuarantine(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.err.Error())
		}
		d.refuseError(ctx, msg.lease, msg.err)
		return
	}
	delete(d.loading, msg.lease)
	d.held[msg.lease], d.lastDemand = msg.model, time.Now()
	took := time.Since(l.started)
	d.Log.Info().Str("lease", msg.lease).Int64("bytes", msg.model.Info.WeightBytes).Dur("took", took).
		Msg("model loaded")
	metrics := &messages.SwitchMetrics{Load: durationpb.New(took), Source: "disk",
		Bytes: uint64(msg.model.Info.WeightBytes)}
	for _, a := range l.requesters {
		ctx.Send(a.replyTo, d.loadedResult(a.requestID, msg.model, metrics, false))
	}
	d.retryWaiting(ctx)
}

// refuse ends a load and answers all its requesters.
func (d *device) refuse(ctx actor.Context, lease string, why *messages.Refused) {
	d.refuseFound(ctx, lease, why, "")
}

// refuseError is refuse for a load that failed. The refusal contains the revision that was found if
// it is not the requested one.
func (d *device) refuseError(ctx actor.Context, lease string, err error) {
	found := ""
	if other := (*engine.RevisionMismatch)(nil); errors.As(err, &other) {
		found = other.Found.Revision
	}
	d.refuseFound(ctx, lease, &messages.Refused{Reason: reasonOf(err), Detail: err.Error()}, found)
}

func (d *device) refuseFound(ctx actor.Context, lease string, why *messages.Refused, found string) {
	d.Log.Warn().Str("lease", lease).Stringer("reason", why.GetReason()).Str("detail", why.GetDetail()).
		Msg("model refused")
	for _, a := range d.loading[lease].requesters {
		refused := refusedLoad(a.requestID, why)
		refused.FoundRevision = found
		ctx.Send(a.replyTo, refused)
	}
	delete(d.loading, lease)
}

func (d *device) onUnload(ctx actor.Context, msg *messages.UnloadModel) {
	lease, req := msg.GetLease(), requester{msg.GetRequestId(), ctx.Sender()}
	if _, busy := d.freeing[lease]; busy {
		d.freeing[lease] = append(d.freeing[lease], req)
		return
	}
	if _, busy := d.loading[lease]; busy {
		ctx.Send(req.replyTo, refusedUnload(req.requestID, messages.Reason_REASON_NOT_READY,
			"lease "+lease+" is being loaded"))
		return
	}
	if _, ok := d.held[lease]; !ok {
		ctx.Send(req.replyTo, unloadedResult(req.requestID, lease, 0))
		return
	}
	d.unload(ctx, lease, []requester{req})
}

// unload starts a job that frees a lease's memory; its end is reported to the requesters.
func (d *device) unload(ctx actor.Context, lease string, requesters []requester) {
	d.freeing[lease] = requesters
	models, incarnation, jobs := d.Models, d.incarnation, &d.jobs
	var resized <-chan struct{}
	if z := d.resizing[lease]; z != nil {
		resized = z.done
		delete(d.resizing, lease)
	}
	jobs.Add(1)
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (int64, error) {
			defer jobs.Done()
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
	requesters := d.freeing[msg.lease]
	delete(d.freeing, msg.lease)
	d.lastDemand = time.Now()
	if msg.err == nil {
		delete(d.held, msg.lease)
		delete(d.kvUsers, msg.lease)
		delete(d.notResizable, msg.lease)
		d.ledger.Release(msg.lease)
		ctx.Send(d.hbm, &messages.BlocksReleased{Lease: msg.lease})
		d.Log.Info().Str("lease", msg.lease).Int64("bytes", msg.bytes).Msg("model unloaded")
	}
	for _, a := range requesters {
		if msg.err != nil {
			ctx.Send(a.replyTo, refusedUnload(a.requestID, messages.Reason_REASON_CONFLICT, msg.err.Error()))
			continue
		}
		ctx.Send(a.replyTo, unloadedResult(a.requestID, msg.lease, msg.bytes))
	}
	d.retryWaiting(ctx)
}

func (d *device) loadedResult(requestID string, m residency.Loaded, metrics *messages.SwitchMetrics,
	adopted bool) *messages.LoadModelResult {
	return &messages.LoadModelResult{RequestId: requestID,
		Outcome: &messages.LoadModelResult_Loaded{Loaded: &messages.ModelLoaded{
			Lease: m.Lease, Device: d.Name, KvBlocks: uint32(m.KVBlocks), KvBlockBytes: uint64(m.KVBlockBytes),
			ContextTokens: uint32(m.Info.ContextTokens), Vocab: uint32(m.Info.Vocab), Eos: m.Info.EOS,
			Metrics: metrics, Adopted: adopted, AdapterPages: uint32(m.AdapterPages),
			KvBlocksAlone: uint32(d.blocksAlone(m)),
			WeightsDigest: m.Digests.Weights, RevisionDigest: m.Digests.Revision,
		}}}
}

// leaseMismatch returns the refusal of a load for a lease that already holds a model with another
// revision, or with one that may differ. It returns nil if the lease matches.
func leaseMismatch(m residency.Loaded, asked *messages.LoadModel) *messages.Refused {
	switch want := asked.GetRevisionDigest(); {
	case want != "" && m.Digests.Revision != want:
		return &messages.Refused{
			Reason: messages.Reason_REASON_WEIGHTS_DIFFER,
			Detail: fmt.Sprintf("lease %s holds revision %s, not the requested %s; "+
				"it is reloaded once the lease is released",
				m.Lease, digest.Short(m.Digests.Revision), digest.Short(want)),
		}
	case want == "" && m.Deploy != asked.GetDeploy():
		return &messages.Refused{
			Reason: messages.Reason_REASON_CONFLICT,
			Detail: "lease " + m.Lease +
				" was loaded before the last models.deploy; it is reloaded once the lease is released",
		}
	}
	return nil
}

func refusedLoad(requestID string, r *messages.Refused) *messages.LoadModelResult {
	return &messages.LoadModelResult{RequestId: requestID, Outcome: &messages.LoadModelResult_Refused{Refused: r}}
}

func unloadedResult(requestID, lease string, bytes int64) *messages.UnloadModelResult {
	return &messages.UnloadModelResult{RequestId: requestID, Outcome: &messages.UnloadModelResult_Unloaded{
		Unloaded: &messages.ModelUnloaded{Lease: lease, Bytes: uint64(bytes)},
	}}
}

func refusedUnload(requestID string, reason messages.Reason, detail string) *messages.UnloadModelResult {
	return &messages.UnloadModelResult{RequestId: requestID, Outcome: &messages.UnloadModelResult_Refused{
		Refused: &messages.Refused{Reason: reason, Detail: detail},
	}}
}
