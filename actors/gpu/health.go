package gpu

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/core/health"
	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
)

// Source tells how a device is. It may block.
type Source interface{ Health() health.Observation }

const (
	observeEvery = time.Second
	// selfTestEvery is how often a device that was lost is tried. One that has other faults waits for the operator: a copy
	// that succeeds says nothing about them.
	selfTestEvery = 30 * time.Second
	keptEvents    = 16 // in the status
)

// standing is whether the device may be used, and what is known of it. It outlives the actor.
type standing struct {
	jobs sync.WaitGroup // loads and unloads in flight, of every incarnation

	quarantine *messages.Quarantine // nil: it may be used
	seen       *health.Observation  // the last one
	observed   time.Time            // when
	events     []*messages.GpuEvent
}

// observeNow, observed and tested are notes to self.
type (
	observeNow struct{ incarnation uint64 }
	observed   struct {
		incarnation uint64
		seen        health.Observation
		err         error
	}
	tested struct {
		incarnation uint64
		err         error
	}
)

// observe asks the source in a job; the next one is asked a while after the answer.
func (d *device) observe(ctx actor.Context) {
	source, incarnation := d.Source, d.incarnation
	supervise.Job(ctx, d.life,
		func(context.Context) (health.Observation, error) { return source.Health(), nil },
		func(o health.Observation, err error) any { return &observed{incarnation, o, err} })
}

func (d *device) onObserved(ctx actor.Context, msg *observed) {
	if msg.incarnation != d.incarnation {
		return
	}
	supervise.After(ctx, observeEvery, &observeNow{d.incarnation})
	if msg.err != nil {
		d.Log.Error().Err(msg.err).Msg("device not observed")
		return
	}
	fault, notes := health.Judge(d.seen, msg.seen)
	d.seen, d.observed = &msg.seen, time.Now()
	for _, note := range notes {
		d.note(note)
	}
	if fault.Cause != health.None {
		d.condemn(causes[fault.Cause], fault.Detail)
	}
	if d.lost() {
		d.onLost(ctx)
	}
}

var causes = map[health.Cause]messages.QuarantineCause{
	health.Operator: messages.QuarantineCause_QUARANTINE_CAUSE_OPERATOR, health.Lost: messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST,
	health.Memory: messages.QuarantineCause_QUARANTINE_CAUSE_MEMORY, health.XID: messages.QuarantineCause_QUARANTINE_CAUSE_XID,
}

// lost reports whether what is on the device is given up.
func (d *device) lost() bool {
	return d.quarantine.GetCause() == messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST
}

// onLost frees what nobody uses any more, and tries whether the device is back.
func (d *device) onLost(ctx actor.Context) {
	for lease := range d.held {
		if _, busy := d.freeing[lease]; !busy {
			d.free(ctx, lease, nil)
		}
	}
	due := len(d.releasing) > 0 || d.seen.Lost == "" && time.Since(d.tried) >= selfTestEvery
	if due && d.empty() {
		d.selfTest(ctx)
	}
}

// empty reports whether nobody uses the device's memory. A lost one is opened again only then.
func (d *device) empty() bool { return len(d.held)+len(d.loading)+len(d.freeing) == 0 }

// note keeps what happened, for people.
func (d *device) note(detail string) {
	d.Log.Warn().Str("detail", detail).Msg("device event")
	d.Publish("gpu.event", d.Node+"/"+d.Name, detail)
	events := append(slices.Clone(d.events), &messages.GpuEvent{Time: timestamppb.Now(), Detail: detail})
	d.events = events[max(0, len(events)-keptEvents):]
}

// condemn quarantines the device. The first cause stays, but for one that turns out to be lost.
func (d *device) condemn(cause messages.QuarantineCause, detail string) {
	worse := cause == messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST && !d.lost()
	if d.quarantine != nil && !worse {
		return
	}
	d.quarantine = &messages.Quarantine{Cause: cause, Detail: detail, Since: timestamppb.Now()}
	d.tried = time.Now()
	d.Log.Error().Stringer("cause", cause).Str("detail", detail).Msg("device quarantined")
	d.Publish("gpu.quarantined", d.Node+"/"+d.Name, detail)
}

// onFailed: an engine has found the device lost.
func (d *device) onFailed(msg *messages.DeviceFailed) {
	d.condemn(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.GetDetail())
}

func (d *device) onQuarantine(ctx actor.Context, msg *messages.QuarantineGpu) {
	detail := "by the operator's word"
	if msg.GetDetail() != "" {
		detail += ": " + msg.GetDetail()
	}
	d.condemn(messages.QuarantineCause_QUARANTINE_CAUSE_OPERATOR, detail)
	ctx.Respond(&messages.QuarantineGpuResult{RequestId: msg.GetRequestId(), Outcome: &messages.QuarantineGpuResult_Quarantined{Quarantined: d.status()}})
}

// onRelease ends the quarantine at once, or once the device has passed a self-test.
func (d *device) onRelease(ctx actor.Context, msg *messages.ReleaseGpu) {
	if msg.GetUntested() && d.quarantine != nil {
		d.release("by the operator's word")
	}
	if d.quarantine == nil {
		ctx.Respond(d.released(msg.GetRequestId()))
		return
	}
	d.releasing = slices.DeleteFunc(d.releasing, func(a asker) bool { return a.requestID == msg.GetRequestId() }) // it asks again
	d.releasing = append(d.releasing, asker{msg.GetRequestId(), ctx.Sender()})
	if !d.lost() || d.empty() { // else once it is
		d.selfTest(ctx)
	}
}

// selfTest tries the device in a job, unless one does already.
func (d *device) selfTest(ctx actor.Context) {
	if d.testing {
		return
	}
	d.testing, d.tried = true, time.Now()
	test, incarnation := d.SelfTest, d.incarnation
	supervise.Job(ctx, d.life,
		func(life context.Context) (struct{}, error) { return struct{}{}, test(life) },
		func(_ struct{}, err error) any { return &tested{incarnation, err} })
}

func (d *device) onTested(ctx actor.Context, msg *tested) {
	if msg.incarnation != d.incarnation {
		return
	}
	askers := d.releasing
	d.testing, d.releasing = false, nil
	switch {
	case d.quarantine == nil:
	case msg.err == nil:
		d.release("it has passed a self-test")
	default:
		d.Log.Warn().Err(msg.err).Msg("device failed its self-test")
		d.quarantine = proto.Clone(d.quarantine).(*messages.Quarantine) // the old one was sent
		d.quarantine.SelfTest = "failed: " + msg.err.Error()
	}
	for _, a := range askers {
		result := d.released(a.requestID)
		if d.quarantine != nil {
			result.Outcome = &messages.ReleaseGpuResult_Refused{Refused: d.refusal("it has failed its self-test: " + msg.err.Error())}
		}
		ctx.Send(a.replyTo, result)
	}
}

func (d *device) release(why string) {
	d.Log.Info().Str("why", why).Msg("device released")
	d.Publish("gpu.released", d.Node+"/"+d.Name, why)
	d.quarantine = nil
}

func (d *device) released(requestID string) *messages.ReleaseGpuResult {
	return &messages.ReleaseGpuResult{RequestId: requestID, Outcome: &messages.ReleaseGpuResult_Released{Released: d.status()}}
}

// refusal says that the device is quarantined, and why.
func (d *device) refusal(detail string) *messages.Refused {
	return &messages.Refused{
		Reason: messages.Reason_REASON_QUARANTINED, Detail: d.Node + "/" + d.Name + " is quarantined: " + detail + "; gpus.release ends that",
	}
}

// reasonOf is the reason of a load that failed.
func reasonOf(err error) messages.Reason {
	switch {
	case errors.Is(err, cuda.ErrOutOfMemory):
		return messages.Reason_REASON_NO_MEMORY
	case errors.As(err, new(*engine.RevisionMismatch)):
		return messages.Reason_REASON_WEIGHTS_DIFFER
	case errors.Is(err, cuda.ErrDeviceLost):
		return messages.Reason_REASON_QUARANTINED
	}
	return messages.Reason_REASON_LOAD_FAILED
}

// health is the last observation as a report; nil before the first.
func (s *standing) health() *messages.GpuHealth {
	if s.seen == nil {
		return nil
	}
	o := s.seen
	return &messages.GpuHealth{
		Observed: timestamppb.New(s.observed), MemoryUsedBytes: wide(o.MemoryUsed), UtilisationPercent: narrow(o.Utilisation),
		MemoryUtilisationPercent: narrow(o.MemoryUtilisation), TemperatureCelsius: narrow(o.Temperature), PowerMilliwatts: narrow(o.Power),
		EccCorrected: wide(o.Corrected), EccUncorrectable: wide(o.Uncorrectable), RemapPending: o.RemapPending, RemapFailed: o.RemapFailed,
		PcieGeneration: uint32(o.PCIe.Generation), PcieWidth: uint32(o.PCIe.Width), Nvlinks: uint32(o.NVLinks), Events: s.events,
	}
}

func wide(r health.Reading) *uint64 {
	if !r.Known {
		return nil
	}
	return &r.Value
}

func narrow(r health.Reading) *uint32 {
	if !r.Known {
		return nil
	}
	n := uint32(min(r.Value, math.MaxUint32))
	return &n
}
