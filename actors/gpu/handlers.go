package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/backend"
	core "troupe/core/device"
	"troupe/core/utilization"
	"troupe/messages"
)

const tickInterval = time.Second

func (d *device) onStarted(ctx actor.Context) {
	d.lifetime, d.cancel = context.WithCancel(context.Background())
	held := d.Models.Held()
	models := make([]core.Model, len(held))
	for i, m := range held {
		models[i] = modelOf(m)
	}
	if d.window == nil {
		d.window = utilization.NewWindow(supervise.Now(ctx))
	}
	cfg := core.Config{Name: d.Name, Total: d.Info.MemoryBytes, KVReserve: d.KVReserve}
	d.images = make(map[string]imageRequest)
	d.memory = core.New(cfg, models, d.Models.Copies(), d.attempt, supervise.Now(ctx))
	pid, err := ctx.SpawnNamed(d.HBM, "hbm")
	if err != nil {
		panic(err)
	}
	d.hbm = pid
	d.startTurns(ctx, held)
	d.startReaders(ctx)
	d.performHealth(ctx, d.quarantine.Start(d.Health != nil))
	supervise.After(ctx, tickInterval, &tick{d.incarnation})
}

// onStopping blocks until no job changes resident memory, because the next incarnation rebuilds its
// ledger from that memory.
func (d *device) onStopping() {
	d.Models.OnReaderEnded(nil)
	d.cancel()
	d.changes.Wait()
	if d.memory != nil {
		d.attempt = d.memory.Attempt()
		d.granted = d.sharing.machine.Granted()
	}
}

func (d *device) onLoad(ctx actor.Context, msg *messages.LoadModel) {
	if kind := backend.Kind(msg.GetEngine()).OrNative(); kind != d.engine() {
		ctx.Respond(&messages.LoadModelResult{RequestId: msg.GetRequestId(), Outcome: &messages.LoadModelResult_Refused{
			Refused: &messages.Refused{Reason: messages.Reason_REASON_UNSUPPORTED, Detail: fmt.Sprintf(
				"%s, %s, runs %s engines only, and %s needs a %s one", d.Name, d.Info.Name, d.engine(), msg.GetModel(),
				kind)}}})
		return
	}
	d.perform(ctx, d.memory.LoadAsked(requestOf(ctx, msg), specOf(msg), d.quarantine.State(), supervise.Now(ctx)))
}

// engine returns the kind of the engines that the device runs.
func (d *device) engine() backend.Kind {
	if d.Info.Ledger {
		return backend.Simulated
	}
	return backend.Native
}

func (d *device) onInspected(ctx actor.Context, msg *inspected) {
	switch now := supervise.Now(ctx); {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.perform(ctx, d.memory.InspectFailed(msg.spec.Lease, failureOf(msg.err), now))
	default:
		files := core.Files{Revision: msg.facts.Revision, Layout: msg.facts.WeightLayout}
		d.perform(ctx, d.memory.Inspected(msg.spec.Lease, sizeOf(msg.facts.ModelInfo, msg.spec), files, now))
	}
}

func (d *device) onOpened(ctx actor.Context, msg *opened) {
	switch now := supervise.Now(ctx); {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.perform(ctx, d.memory.LoadFailed(msg.lease, failureOf(msg.err), now))
	default:
		d.perform(ctx, d.memory.Loaded(modelOf(msg.model), now))
	}
}

func (d *device) onUnload(ctx actor.Context, msg *messages.UnloadModel) {
	d.perform(ctx, d.memory.UnloadAsked(requestOf(ctx, msg), msg.GetLease(), fates[msg.GetFate()],
		supervise.Now(ctx)))
}

func (d *device) onUnloaded(ctx actor.Context, msg *unloaded) {
	switch now := supervise.Now(ctx); {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.perform(ctx, d.memory.FreeFailed(msg.lease, failureOf(msg.err), now))
	default:
		d.perform(ctx, d.memory.Freed(msg.lease, msg.bytes, now))
	}
}

func (d *device) onEvict(ctx actor.Context, msg *messages.EvictWeights) {
	d.perform(ctx, d.memory.EvictAsked(requestOf(ctx, msg), msg.GetModel(), msg.GetPark(), supervise.Now(ctx)))
}

func (d *device) onReport(ctx actor.Context, msg *messages.KVReport) {
	if ctx.Sender() != nil {
		d.keepUse(ctx, msg)
		d.verifiedAfterSwitch(msg)
		d.perform(ctx, d.memory.Reported(actorOf(ctx.Sender()), msg.GetLease(), reportOf(msg), supervise.Now(ctx)))
	}
}

func (d *device) onShrunk(ctx actor.Context, msg *messages.KVShrunk) {
	replica, now := actorOf(ctx.Sender()), supervise.Now(ctx)
	if r := msg.GetRefused(); r != nil {
		d.perform(ctx, d.memory.ShrinkRefused(replica, msg.GetLease(), msg.GetAttempt(), r.GetDetail(), now))
		return
	}
	d.perform(ctx, d.memory.Shrunk(replica, msg.GetLease(), msg.GetAttempt(), now))
}

func (d *device) onShrinkTimeout(ctx actor.Context, msg *shrinkTimeout) {
	if msg.incarnation == d.incarnation {
		d.perform(ctx, d.memory.Timer(msg.lease, msg.attempt, supervise.Now(ctx)))
	}
}

func (d *device) onResized(ctx actor.Context, msg *resized) {
	switch now := supervise.Now(ctx); {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.perform(ctx, d.memory.NotResized(msg.lease, msg.attempt, failureOf(msg.err), now))
	default:
		d.perform(ctx, d.memory.Resized(msg.lease, msg.attempt, msg.model.KVBlocks, now))
	}
}

func (d *device) onLeaseAdapters(ctx actor.Context, msg *messages.LeaseAdapters) {
	d.perform(ctx, d.memory.AdaptersAsked(requestOf(ctx, msg), msg.GetLease(), int(msg.GetPages()), supervise.Now(ctx)))
}

func (d *device) onAdaptersLeased(ctx actor.Context, msg *adaptersLeased) {
	switch now := supervise.Now(ctx); {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.perform(ctx, d.memory.NotAllocated(msg.lease, msg.attempt, failureOf(msg.err), now))
	default:
		d.perform(ctx, d.memory.Allocated(msg.lease, msg.attempt, msg.model.AdapterPages, now))
	}
}

func (d *device) onAdapterReport(ctx actor.Context, msg *messages.AdapterReport) {
	r := core.PoolReport{
		Pages: int(msg.GetPages()), Wanted: int(msg.GetWantedPages()), Used: int(msg.GetUsedPages()),
		Shrinks: msg.GetAttempt() != 0,
	}
	d.perform(ctx, d.memory.PoolReported(actorOf(ctx.Sender()), msg.GetLease(), r, d.quarantine.State(),
		supervise.Now(ctx)))
}

func (d *device) onAdaptersShrunk(ctx actor.Context, msg *messages.AdaptersShrunk) {
	d.perform(ctx, d.memory.PoolShrunk(actorOf(ctx.Sender()), msg.GetLease(), msg.GetAttempt(), supervise.Now(ctx)))
}

func (d *device) onPoolTimeout(ctx actor.Context, msg *poolTimeout) {
	if msg.incarnation == d.incarnation {
		d.perform(ctx, d.memory.PoolTimer(msg.lease, msg.attempt, supervise.Now(ctx)))
	}
}

func (d *device) onPagesChanged(ctx actor.Context, msg *pagesChanged) {
	switch now, pages := supervise.Now(ctx), msg.model.AdapterPages; {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.perform(ctx, d.memory.PagesNotChanged(msg.lease, msg.attempt, pages, failureOf(msg.err), now))
	default:
		d.perform(ctx, d.memory.PagesChanged(msg.lease, msg.attempt, pages, now))
	}
}

func (d *device) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation == d.incarnation {
		d.syncReaders(ctx)
		d.perform(ctx, d.memory.Tick(d.quarantine.State(), supervise.Now(ctx)))
		supervise.After(ctx, tickInterval, msg)
	}
}
