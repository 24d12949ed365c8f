package gpu

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/quarantine"
	"troupe/messages"
)

func (d *device) onObserveNow(ctx actor.Context, msg *observeNow) {
	if msg.incarnation == d.incarnation {
		d.observe(ctx)
	}
}

func (d *device) onObserved(ctx actor.Context, msg *observed) {
	switch {
	case msg.incarnation != d.incarnation:
	case msg.err != nil:
		d.Log.Error().Err(msg.err).Msg("device observation failed")
		d.performHealth(ctx, d.quarantine.NotObserved())
	default:
		d.performHealth(ctx, d.quarantine.Observed(msg.seen, d.memory.Empty(), supervise.Now(ctx)))
	}
}

// onDeviceFailed handles an engine's report that the device is lost.
func (d *device) onDeviceFailed(ctx actor.Context, msg *messages.DeviceFailed) {
	d.performHealth(ctx, d.quarantine.DeviceLost(msg.GetDetail(), supervise.Now(ctx)))
}

func (d *device) onQuarantine(ctx actor.Context, msg *messages.QuarantineGpu) {
	d.performHealth(ctx, d.quarantine.Quarantine(healthRequestOf(ctx, msg), msg.GetDetail(), supervise.Now(ctx)))
}

func (d *device) onRelease(ctx actor.Context, msg *messages.ReleaseGpu) {
	d.performHealth(ctx, d.quarantine.Release(healthRequestOf(ctx, msg), msg.GetUntested(), d.memory.Empty(),
		supervise.Now(ctx)))
}

func (d *device) onTested(ctx actor.Context, msg *tested) {
	if msg.incarnation != d.incarnation {
		return
	}
	fault := ""
	if msg.err != nil {
		fault = msg.err.Error()
	}
	d.performHealth(ctx, d.quarantine.Tested(fault, supervise.Now(ctx)))
}

// performHealth carries out the effects of the quarantine, in order.
func (d *device) performHealth(ctx actor.Context, effects []quarantine.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case quarantine.Observe:
			d.observeAfter(ctx, e.After)
		case quarantine.RunTest:
			d.selfTest(ctx)
		case quarantine.UnloadAll:
			d.perform(ctx, d.memory.UnloadAll(supervise.Now(ctx)))
		case quarantine.AnswerQuarantine:
			d.send(ctx, e.To.From.Address, e.To.From.ID, quarantinedResult(e.To.ID, d.status(ctx)))
		case quarantine.AnswerRelease:
			d.send(ctx, e.To.From.Address, e.To.From.ID, releasedResult(e.To.ID, d.status(ctx)))
		case quarantine.RefuseRelease:
			d.send(ctx, e.To.From.Address, e.To.From.ID, refusedRelease(e.To.ID, d.quarantineRefusal(e.Why)))
		case quarantine.Began:
			d.Log.Error().Stringer("cause", causes[e.Cause]).Str("detail", e.Detail).Msg("device quarantined")
			d.publish("gpu.quarantined", e.Detail)
			d.tellPlanner(ctx)
		case quarantine.Ended:
			d.Log.Info().Str("why", e.Why).Msg("device released")
			d.publish("gpu.released", e.Why)
			d.tellPlanner(ctx)
		case quarantine.Noted:
			d.Log.Warn().Str("detail", e.Detail).Msg("device event")
			d.publish("gpu.event", e.Detail)
		case quarantine.TestFailed:
			d.Log.Warn().Str("error", e.Detail).Msg("device self-test failed")
		case quarantine.Ignored:
			d.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Str("why", e.Why).
				Msg("event ignored by device")
		default:
			panic(fmt.Sprintf("gpu: unknown effect %T", effect))
		}
	}
}

// tellPlanner tells the planner that the quarantine of the device has begun or ended.
func (d *device) tellPlanner(ctx actor.Context) {
	if d.Planner != nil {
		ctx.Send(d.Planner, &messages.DeviceChanged{Node: d.Node, Gpu: d.Name})
	}
}

func (d *device) publish(kind, detail string) { d.Publish(kind, d.Node+"/"+d.Name, detail) }
