package replica

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	core "troupe/core/replica"
	"troupe/messages"
)

// Perform carries out the machine's effects, in order.
func (r *replica) Perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.StateChanged:
			r.stateChanged(e.State)
		case core.Publish:
			ctx.Request(r.Deployment, &messages.ReplicaChanged{Status: r.status(ctx), Failure: r.failure})
		case core.Announce:
			r.announce(ctx, e)
		case core.SetTimer:
			supervise.After(ctx, e.After, &timerFired{r.incarnation, e.Timer})
		case core.LoadModel:
			ctx.Request(r.GPU, wire.LoadModel(r.Spec, r.machine.MaxAdapters(), r.started))
		case core.KeepModel:
			r.keepModel(ctx.Message().(*messages.LoadModelResult), e.Fresh)
		case core.KeepFailure:
			r.failure = ctx.Message().(*messages.LoadModelResult).GetRefused()
		case core.KeepRevision:
			r.kept.revision = e.Digest
		case core.KeepLevel:
			r.kept.standby = e.Standby
		case core.AdoptBlocks:
			ctx.Request(r.HBM, wire.AdoptBlocks(r.Spec, r.model))
		case core.Open:
			r.open(ctx)
		case core.Close:
			r.close(ctx)
		case core.CheckFolder:
			r.checkFolder(ctx, e.Revision)
		case core.FolderChanged:
			r.folderChanged(e)
		case core.Drained:
			ctx.Send(r.drainRequester, &messages.ReplicaDrained{
				Replica: r.Spec.GetName(), Departures: wire.Departures(e.Departures),
			})

		case core.SaveBlocks:
			r.tiering.Save(ctx)
		case core.SequencesSaved:
			ctx.Send(r.Deployment, &messages.SequencesSaved{
				Replica: r.Spec.GetName(), Blocks: uint32(e.Blocks), Detail: e.Fault,
			})

		case core.Attach:
			r.attach(ctx, e)
		case core.Reattach:
			r.reattach(ctx, e)
		case core.Accept:
			answer(ctx, r.reply.Accept(e))
		case core.Refuse:
			answer(ctx, r.reply.Refuse(e))
		case core.Finish:
			ctx.Request(ctx.Sender(), r.reply.Finished(e))
		case core.Claimed:
			r.migrations.Claim(ctx, e.ID)
		case core.Queued:
			r.queued(ctx, e)
		case core.Interrupt:
			r.interrupt(ctx, e)
		case core.Drop:
			r.drop(ctx, e)
		case core.Preempted:
			r.Log.Info().Str("request", e.ID).Str("why", e.Why).Msg("sequence preempted")
			r.migrations.Cancel(ctx, e.ID, "preempted: "+e.Why)
		case core.Rejected:
			r.Log.Info().Str("request", e.ID).Str("adapter", e.Adapter).Str("why", e.Why).Msg("sequence rejected")
		case core.Poisoned:
			r.Log.Error().Str("request", e.ID).Msg("sequence dropped: it crashes the engine")
		case core.Nonfinite:
			r.Log.Error().Str("request", e.ID).Str("model", r.Spec.GetModel()).Str("adapter", e.Adapter).
				Msg("sequence ended: its logits are NaN or infinite; check the weights")

		case core.BlocksChanged:
			ctx.Send(r.HBM, wire.BlocksChanged(r.model.GetLease(), e))
		case core.AskTurn:
			ctx.Request(r.GPU, r.turns().Request(e.Request))
		case core.EndTurn:
			ctx.Request(r.GPU, r.turns().Ended(e))
		case core.RunStep:
			r.runStep(ctx, e)
		case core.RepeatStep:
			r.repeatStep(ctx)
		case core.Emit:
			r.emit(ctx, e)
		case core.PrefillMeasured:
			r.tiering.PrefillMeasured(e.Tokens, e.Took)
		case core.RestoreRead:
			r.tiering.RestoreRead(ctx, e.ID)
		case core.StepAborted:
			r.Log.Warn().Str("request", e.ID).Str("why", e.Why).
				Msg("step aborted: its blocks were not restored in time")
			r.tiering.StepAborted(ctx, e.ID)
		case core.StepEnded:
			r.migrations.BetweenSteps(ctx)
			r.Advance(ctx)
		case core.AnswerOffers:
			r.migrations.AnswerOffers(ctx)
		case core.Advance:
			r.Advance(ctx)

		case core.FaultBegan:
			r.faultBegan(e)
		case core.FaultEnded:
			r.faultEnded(e)
		case core.Suspect:
			ctx.Send(r.GPU, &messages.DeviceSuspected{Lease: r.Spec.GetName(), Detail: r.title() + ": " + e.Detail})
		case core.KeepCanary:
			r.kept.canary = e.Canary
		case core.Verified:
			r.verified(e)

		case core.ReportKV:
			ctx.Request(r.GPU, wire.KVReport(e, r.model.GetLease(), r.started, r.Spec.GetPriority()))
		case core.KVShrunk:
			r.kvShrunk(ctx, e)
		case core.Resized:
			r.Log.Info().Str("replica", r.Spec.GetName()).Int("from", e.From).Int("blocks", e.To).
				Msg("KV memory resized")
		case core.SyncKVPins:
			r.tiering.SyncPins(ctx)

		case core.LeasePages:
			r.leasePages(ctx)
		case core.StartPool:
			r.adapters = spawn(ctx, r.Adapters(r.model.GetHandle()), "adapters")
		case core.AdoptPins:
			r.adoptPins(ctx, e.Pins)
		case core.SendPin:
			ctx.Send(r.adapters, r.pinAdapter(e.Pin))
		case core.SendUnpin:
			ctx.Send(r.adapters, &messages.UnpinAdapter{RequestId: e.Name})
		case core.AdapterRequested:
			ctx.Send(r.adapters, &messages.AdapterRequested{Adapter: r.adapterSpecs[e.Adapter]})
		case core.PrefetchAdapters:
			ctx.Send(r.adapters, r.prefetchOf(e.Keys))
		case core.ForgetAdapter:
			ctx.Send(r.adapters, ctx.Message())
		case core.PinFailed:
			r.Log.Warn().Str("adapter", e.Adapter).Str("why", e.Why).Msg("pinned adapter is not on the device")
		case core.Ignored:
			r.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Str("why", e.Why).
				Msg("event ignored by replica")
		default:
			panic(fmt.Sprintf("replica: unknown effect %T", effect))
		}
	}
	r.machine.Recycle(effects)
}
