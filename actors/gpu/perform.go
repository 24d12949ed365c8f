package gpu

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/device"
	"troupe/messages"
)

// perform carries out the effects of the memory, in order.
func (d *device) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.Inspect:
			d.inspect(ctx, e)
		case core.LoadWeights:
			d.loadWeights(ctx, e)
		case core.FreeWeights:
			d.freeWeights(ctx, e)
		case core.RevokeReaders:
			d.revokeReaders(ctx, e)
		case core.Open:
			d.open(ctx, e)
		case core.Free:
			d.free(ctx, e)
		case core.Resize:
			d.resize(ctx, e)
		case core.Allocate:
			d.allocate(ctx, e)
		case core.ChangePages:
			d.changePages(ctx, e)
		case core.AskPool:
			d.askPool(ctx, e)
		case core.NotifyPool:
			d.send(ctx, e.Pool.Address, e.Pool.ID,
				&messages.GrowAdapters{Lease: e.Lease, Pages: uint32(e.Pages), Attempt: e.Attempt})
		case core.AskShrink:
			d.askShrink(ctx, e)
		case core.NotifyReplica:
			d.send(ctx, e.Replica.Address, e.Replica.ID, &messages.GrowKV{Lease: e.Lease, Blocks: uint32(e.Blocks)})
		case core.NotifyTier:
			ctx.Send(d.hbm, &messages.BlocksResized{Lease: e.Lease, Blocks: uint32(e.Blocks)})
		case core.DropFromTier:
			ctx.Send(d.hbm, &messages.BlocksReleased{Lease: e.Lease})
		case core.AnswerLoad:
			d.keepLoad(ctx, e)
			d.reportSource(e)
			d.reply(ctx, e.To, loadedResult(d.Name, e))
		case core.RefuseLoad:
			d.reply(ctx, e.To, d.refusedLoad(e))
		case core.AnswerUnload:
			d.reply(ctx, e.To, unloadedResult(e))
		case core.RefuseUnload:
			d.reply(ctx, e.To, refusedUnload(e))
		case core.AnswerAdapters:
			d.reply(ctx, e.To, adaptersResult(e))
		case core.RefuseAdapters:
			d.reply(ctx, e.To, refusedAdapters(e))
		case core.AnswerEvict:
			d.reply(ctx, e.To, evictedResult(e, d.status(ctx)))
		case core.RefuseEvict:
			d.reply(ctx, e.To, d.refusedEvict(e))
		case core.LossDetected:
			d.performHealth(ctx, d.quarantine.DeviceLost(e.Detail, supervise.Now(ctx)))
		case core.ModelUnloaded:
			d.leaveTurns(ctx, e.Lease)
			delete(d.uses, e.Lease)
			delete(d.loads, e.Lease)
			d.log(effect)
		default:
			d.log(effect)
		}
	}
	d.followSwitch(ctx)
}

// log logs a notice of the memory.
func (d *device) log(effect core.Effect) {
	switch e := effect.(type) {
	case core.ModelLoaded:
		d.Log.Info().Str("lease", e.Lease).Int64("bytes", e.Bytes).Dur("took", e.Took).Msg("model loaded")
	case core.ModelRefused:
		d.Log.Warn().Str("lease", e.Lease).Stringer("reason", reasons[e.Refusal.Reason]).
			Str("detail", e.Refusal.Detail).Msg("model refused")
	case core.WeightsMerged:
		d.Log.Info().Uint64("weights", e.Copy).Uint64("same", e.Into).Msg("weights are on the device already")
	case core.WeightsEvicted:
		d.Log.Info().Str("model", e.Copy.Source.Model).Int64("bytes", e.Copy.Source.Bytes).Str("why", e.Why).
			Msg("weights evicted")
		d.publish("weights.evicted", e.Copy.Source.Model+": "+e.Why)
	case core.WeightsIgnored:
		d.Log.Debug().Uint64("weights", e.Copy).Stringer("state", e.State).Stringer("event", e.Event).
			Str("why", e.Why).Msg("event ignored by weights")
	case core.ModelUnloaded:
		d.Log.Info().Str("lease", e.Lease).Int64("bytes", e.Bytes).Msg("model unloaded")
	case core.ShortOfMemory:
		d.Log.Info().Str("lease", e.Lease).Bool("ok", e.Yields).Str("why", e.Why).Msg("short of memory")
	case core.NotYielded:
		d.Log.Warn().Str("lease", e.Lease).Str("why", e.Why).Msg("replica yields no KV memory")
	case core.ResizeFailed:
		d.Log.Warn().Str("error", e.Detail).Str("lease", e.Lease).Msg("resizing KV memory failed")
	case core.NotGivenBack:
		d.Log.Info().Str("lease", e.Lease).Str("why", e.Why).Msg("pages for adapters not given back")
	case core.PagesUnchanged:
		d.Log.Warn().Str("error", e.Detail).Str("lease", e.Lease).Msg("changing the pages for adapters failed")
	case core.AllocateFailed:
		d.Log.Warn().Str("error", e.Detail).Str("lease", e.Lease).Msg("allocating adapter memory failed")
	case core.Ignored:
		d.Log.Debug().Str("lease", e.Lease).Str("state", e.State).Stringer("event", e.Event).Str("why", e.Why).
			Msg("event ignored by device memory")
	default:
		panic(fmt.Sprintf("gpu: unknown effect %T", effect))
	}
}

func (d *device) askShrink(ctx actor.Context, e core.AskShrink) {
	ctx.Send(actor.NewPID(e.Replica.Address, e.Replica.ID),
		&messages.ShrinkKV{Lease: e.Lease, Blocks: uint32(e.Blocks), Attempt: e.Attempt})
	supervise.After(ctx, e.Timeout, &shrinkTimeout{d.incarnation, e.Lease, e.Attempt})
}

func (d *device) askPool(ctx actor.Context, e core.AskPool) {
	d.send(ctx, e.Pool.Address, e.Pool.ID,
		&messages.ShrinkAdapters{Lease: e.Lease, Pages: uint32(e.Pages), Attempt: e.Attempt})
	supervise.After(ctx, e.Timeout, &poolTimeout{d.incarnation, e.Lease, e.Attempt})
}

func (d *device) reply(ctx actor.Context, to core.Request, msg any) {
	d.send(ctx, to.From.Address, to.From.ID, msg)
}

// send sends a message to an actor. It does nothing if the address is empty, because the command
// had no sender.
func (d *device) send(ctx actor.Context, address, id string, msg any) {
	if id != "" {
		ctx.Send(actor.NewPID(address, id), msg)
	}
}
