package gpu

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	core "troupe/core/device"
	"troupe/core/switching"
	"troupe/messages"
)

// switchDeadline is a message to self.
type switchDeadline struct {
	incarnation uint64
	number      uint64
}

func (d *device) onSwitch(ctx actor.Context, msg *messages.SwitchGpu) {
	if _, quarantined := d.quarantine.Current(); quarantined {
		q, _ := d.quarantine.Current()
		ctx.Respond(refusedSwitch(msg.GetRequestId(), d.quarantineRefusal(q.Detail)))
		return
	}
	r := switching.Request{
		ID: msg.GetRequestId(), To: msg.GetTo(), Leave: msg.GetLeave(), Timeout: msg.GetTimeout().AsDuration(),
	}
	effects := d.switches.Begin(supervise.Now(ctx), r)
	if i := slices.IndexFunc(effects, isRefusal); i >= 0 {
		in := effects[i].(switching.Refuse).InProgress
		ctx.Respond(refusedSwitch(r.ID, &messages.Refused{
			Reason: messages.Reason_REASON_CONFLICT, RetryAfter: durationpb.New(time.Second),
			Detail: fmt.Sprintf("%s/%s switches to %s, and waits for %v; try again later", d.Node, d.Name, in.To,
				in.Waits),
		}))
		return
	}
	d.lastSwitch = &messages.GpuSwitch{Id: r.ID, To: r.To, Leave: r.Leave}
	d.performSwitch(ctx, effects)
	d.followSwitch(ctx)
	ctx.Respond(&messages.SwitchGpuResult{RequestId: r.ID,
		Outcome: &messages.SwitchGpuResult_Begun{Begun: d.status(ctx)}})
}

func isRefusal(e switching.Effect) bool { _, is := e.(switching.Refuse); return is }

func refusedSwitch(id string, r *messages.Refused) *messages.SwitchGpuResult {
	return &messages.SwitchGpuResult{RequestId: id, Outcome: &messages.SwitchGpuResult_Refused{Refused: r}}
}

// followSwitch reports to the switch in progress what has changed in the memory.
func (d *device) followSwitch(ctx actor.Context) {
	if d.switches.Status().Phase == switching.Serving {
		return
	}
	now, of := supervise.Now(ctx), d.lastSwitch
	for _, lease := range of.GetLeave() {
		d.followLeaving(ctx, lease, now)
		if d.switches.Status().Phase == switching.Serving {
			return
		}
	}
	loaded, serves, with := d.memory.Coming(of.GetTo())
	if loaded {
		d.performSwitch(ctx, d.switches.Loaded(now, of.GetTo(), d.loads[of.GetTo()]))
	}
	if serves {
		d.performSwitch(ctx, d.switches.Serves(now, of.GetTo(),
			switching.Start{At: with.Since, Graphs: with.Graphs, Graph: with.Capture}))
	}
}

// keepLoad records how the weights of a lease were loaded, for the metrics of a switch.
func (d *device) keepLoad(ctx actor.Context, e core.AnswerLoad) {
	if m := e.Model; !e.Adopted && !e.Shared {
		d.loads[m.Lease] = switching.Load{At: supervise.Now(ctx), Source: m.From, Why: m.FromWhy,
			Bytes: m.Size.Weights, Floor: m.Floor}
	}
}

func (d *device) followLeaving(ctx actor.Context, lease string, now time.Time) {
	if standby, known := d.memory.Wanted(lease); standby {
		d.performSwitch(ctx, d.switches.Suspended(now, lease))
	} else if known {
		d.performSwitch(ctx, d.switches.Activated(now, lease))
	}
	switch drained, freed := d.memory.Leaving(lease); {
	case d.switches.Status().Phase == switching.Serving: // the activation has ended the switch
	case freed:
		d.performSwitch(ctx, d.switches.Freed(now, lease))
	case drained:
		d.performSwitch(ctx, d.switches.Drained(now, lease))
	}
}

func (d *device) onOverrule(ctx actor.Context, msg *messages.OverruleSwitch) {
	d.performSwitch(ctx, d.switches.Overruled(supervise.Now(ctx), msg.GetSwitch(), msg.GetReplica()))
	ctx.Respond(&messages.OverruleSwitchResult{RequestId: msg.GetRequestId(), Status: d.status(ctx)})
}

func (d *device) onSwitchDeadline(ctx actor.Context, msg *switchDeadline) {
	if msg.incarnation == d.incarnation {
		d.performSwitch(ctx, d.switches.Deadline(supervise.Now(ctx), msg.number))
	}
}

// performSwitch carries out the effects of a switch. The control service brings back what left.
func (d *device) performSwitch(ctx actor.Context, effects []switching.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case switching.Entered:
			d.Log.Info().Str("switch", e.ID).Stringer("phase", e.Phase).Msg("device switches")
		case switching.SetDeadline:
			supervise.After(ctx, e.After, &switchDeadline{d.incarnation, e.Number})
		case switching.Ended:
			d.endSwitch(e)
		case switching.BringBack, switching.Ignored:
		default:
			panic(fmt.Sprintf("gpu: unknown effect %T", effect))
		}
	}
}

func (d *device) endSwitch(e switching.Ended) {
	m := e.Metrics
	d.lastSwitch.Failure, d.lastSwitch.Reason = e.Failure, reasonOf(e)
	d.lastSwitch.Metrics = &messages.SwitchMetrics{
		Drain: durationpb.New(m.Drain), Free: durationpb.New(m.Free), Load: durationpb.New(m.Load),
		Source: m.Weights.Source, Why: m.Weights.Why, Bytes: uint64(m.Weights.Bytes), Floor: known(m.Weights.Floor),
		Start: durationpb.New(m.Capture), Graphs: uint32(m.Engine.Graphs),
	}
	if m.Engine.Graphs > 0 {
		d.lastSwitch.Metrics.Graph = durationpb.New(m.Engine.Graph)
	}
	d.switched.add(e)
	text := fmt.Sprintf("to %s: drain %v, free %v, load %v of %d bytes from %s%s, start %v%s", e.To, m.Drain, m.Free,
		m.Load, m.Weights.Bytes, m.Weights.Source, floorText(m.Weights.Floor), m.Capture, graphsText(m.Engine))
	if e.Failure != "" {
		d.Publish("gpu.switch_failed", d.Name, fmt.Sprintf("%s, in %s: %s", text, e.Phase, e.Failure))
		return
	}
	d.Publish("gpu.switched", d.Name, text)
}

// floorText and graphsText describe figures that are known.
func floorText(floor time.Duration) string {
	if floor == 0 {
		return ""
	}
	return fmt.Sprintf(" (at least %v at measured speeds)", floor.Round(time.Microsecond))
}

func graphsText(s switching.Start) string {
	if s.Graphs == 0 {
		return ""
	}
	return fmt.Sprintf(" with %v for %d graphs", s.Graph, s.Graphs)
}

// verifiedAfterSwitch records how long the check after standby took on the replica that the last switch
// activated.
func (d *device) verifiedAfterSwitch(msg *messages.KVReport) {
	s := d.lastSwitch
	m := s.GetMetrics()
	if m == nil || m.Verify != nil || msg.Verify == nil || s.GetFailure() != "" || s.GetTo() != msg.GetLease() {
		return
	}
	s.Metrics = proto.CloneOf(m) // the earlier ones are in messages
	s.Metrics.Verify = msg.GetVerify()
}

func reasonOf(e switching.Ended) messages.Reason {
	switch {
	case e.Failure == "":
		return messages.Reason_REASON_UNSPECIFIED
	case e.Conflict:
		return messages.Reason_REASON_CONFLICT
	}
	return messages.Reason_REASON_DEADLINE
}

var switchPhases = map[switching.Phase]messages.GpuState{
	switching.Serving:   messages.GpuState_GPU_STATE_SERVING,
	switching.Draining:  messages.GpuState_GPU_STATE_DRAINING,
	switching.Freeing:   messages.GpuState_GPU_STATE_FREEING,
	switching.Loading:   messages.GpuState_GPU_STATE_LOADING,
	switching.Capturing: messages.GpuState_GPU_STATE_CAPTURING,
}

// switchTotals are the switches that have ended, and their times.
type switchTotals struct {
	switched, failed         uint64
	drain, free, load, start time.Duration
	bytes                    uint64
}

func (t *switchTotals) add(e switching.Ended) {
	if e.Failure == "" {
		t.switched++
	} else {
		t.failed++
	}
	m := e.Metrics
	t.drain, t.free, t.load, t.start = t.drain+m.Drain, t.free+m.Free, t.load+m.Load, t.start+m.Capture
	t.bytes += uint64(m.Weights.Bytes)
}

func (t *switchTotals) status() *messages.GpuSwitchTotals {
	return &messages.GpuSwitchTotals{
		Switched: t.switched, Failed: t.failed, Drain: durationpb.New(t.drain), Free: durationpb.New(t.free),
		Load: durationpb.New(t.load), Start: durationpb.New(t.start), Bytes: t.bytes,
	}
}

// switchStatus returns the switch in progress, or the last one; nil: there was none.
func (d *device) switchStatus() *messages.GpuSwitch {
	if d.lastSwitch == nil {
		return nil
	}
	is, of := d.switches.Status(), d.lastSwitch
	return &messages.GpuSwitch{Id: of.GetId(), To: of.GetTo(), Leave: of.GetLeave(), Phase: switchPhases[is.Phase],
		WaitsFor: is.Waits, Failure: of.GetFailure(), Reason: of.GetReason(), Metrics: of.GetMetrics()}
}
