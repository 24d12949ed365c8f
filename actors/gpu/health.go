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

// HealthSource observes a device. It may block.
type HealthSource interface{ Health() health.Observation }

const (
	observeInterval = time.Second
	// selfTestInterval is the interval between self-tests of a lost device. Other faults wait for
	// the operator: a self-test says nothing about them.
	selfTestInterval = 30 * time.Second
	maxEvents        = 16 // in the status
)

// sharedState is shared by all incarnations of the actor: the health of the device, its quarantine,
// and the jobs that use it.
type sharedState struct {
	jobs sync.WaitGroup // loads and unloads in flight, of all incarnations

	quarantine      *messages.Quarantine // nil: not quarantined
	lastObservation *health.Observation  // nil before the first
	observedAt      time.Time            // time of lastObservation
	events          []*messages.GpuEvent
}

// observeNow, observed and tested are messages to self.
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

// observe starts a job that observes the device. The next one starts observeInterval after it ends.
func (d *device) observe(ctx actor.Context) {
	source, incarnation := d.Health, d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (health.Observation, error) { return source.Health(), nil },
		func(o health.Observation, err error) any { return &observed{incarnation, o, err} })
}

func (d *device) onObserved(ctx actor.Context, msg *observed) {
	if msg.incarnation != d.incarnation {
		return
	}
	supervise.After(ctx, observeInterval, &observeNow{d.incarnation})
	if msg.err != nil {
		d.Log.Error().Err(msg.err).Msg("observing the device failed")
		return
	}
	fault, notes := health.Judge(d.lastObservation, msg.seen)
	d.lastObservation, d.observedAt = &msg.seen, time.Now()
	for _, note := range notes {
		d.recordEvent(note)
	}
	if fault.Cause != health.None {
		d.startQuarantine(causes[fault.Cause], fault.Detail)
	}
	if d.isLost() {
		d.recoverLost(ctx)
	}
}

var causes = map[health.Cause]messages.QuarantineCause{
	health.Operator: messages.QuarantineCause_QUARANTINE_CAUSE_OPERATOR,
	health.Lost:     messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST,
	health.Memory:   messages.QuarantineCause_QUARANTINE_CAUSE_MEMORY,
	health.XID:      messages.QuarantineCause_QUARANTINE_CAUSE_XID,
}

// isLost reports whether the device is lost, and with it the models on it.
func (d *device) isLost() bool {
	return d.quarantine.GetCause() == messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST
}

// recoverLost unloads the models of a lost device, and tests the device when it is empty.
func (d *device) recoverLost(ctx actor.Context) {
	for lease := range d.held {
		if _, busy := d.freeing[lease]; !busy {
			d.unload(ctx, lease, nil)
		}
	}
	due := len(d.releaseRequesters) > 0 || d.lastObservation.Lost == "" &&
		time.Since(d.lastSelfTest) >= selfTestInterval
	if due && d.isEmpty() {
		d.startSelfTest(ctx)
	}
}

// isEmpty reports whether no model uses the device's memory. A lost device is reopened only then.
func (d *device) isEmpty() bool { return len(d.held)+len(d.loading)+len(d.freeing) == 0 }

// recordEvent logs, publishes and keeps a device event.
func (d *device) recordEvent(detail string) {
	d.Log.Warn().Str("detail", detail).Msg("device event")
	d.Publish("gpu.event", d.Node+"/"+d.Name, detail)
	events := append(slices.Clone(d.events), &messages.GpuEvent{Time: timestamppb.Now(), Detail: detail})
	d.events = events[max(0, len(events)-maxEvents):]
}

// startQuarantine quarantines the device. The first cause is kept unless the device turns out to be
// lost.
func (d *device) startQuarantine(cause messages.QuarantineCause, detail string) {
	worse := cause == messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST && !d.isLost()
	if d.quarantine != nil && !worse {
		return
	}
	d.quarantine = &messages.Quarantine{Cause: cause, Detail: detail, Since: timestamppb.Now()}
	d.lastSelfTest = time.Now()
	d.Log.Error().Stringer("cause", cause).Str("detail", detail).Msg("device quarantined")
	d.Publish("gpu.quarantined", d.Node+"/"+d.Name, detail)
}

// onDeviceFailed handles an engine's report that the device is lost.
func (d *device) onDeviceFailed(msg *messages.DeviceFailed) {
	d.startQuarantine(messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST, "device lost: "+msg.GetDetail())
}

func (d *device) onQuarantine(ctx actor.Context, msg *messages.QuarantineGpu) {
	detail := "by operator request"
	if msg.GetDetail() != "" {
		detail += ": " + msg.GetDetail()
	}
	d.startQuarantine(messages.QuarantineCause_QUARANTINE_CAUSE_OPERATOR, detail)
	ctx.Respond(&messages.QuarantineGpuResult{RequestId: msg.GetRequestId(),
		Outcome: &messages.QuarantineGpuResult_Quarantined{Quarantined: d.status()}})
}

// onRelease ends the quarantine: at once, or when the device has passed a self-test.
func (d *device) onRelease(ctx actor.Context, msg *messages.ReleaseGpu) {
	if msg.GetUntested() && d.quarantine != nil {
		d.endQuarantine("by operator request")
	}
	if d.quarantine == nil {
		ctx.Respond(d.releasedResult(msg.GetRequestId()))
		return
	}
	d.releaseRequesters = slices.DeleteFunc(d.releaseRequesters,
		func(a requester) bool { return a.requestID == msg.GetRequestId() }) // drop an earlier attempt
	d.releaseRequesters = append(d.releaseRequesters, requester{msg.GetRequestId(), ctx.Sender()})
	if !d.isLost() || d.isEmpty() { // a lost device is tested once it is empty
		d.startSelfTest(ctx)
	}
}

// startSelfTest starts a job that tests the device, unless one is running.
func (d *device) startSelfTest(ctx actor.Context) {
	if d.selfTesting {
		return
	}
	d.selfTesting, d.tested, d.lastSelfTest = true, d.quarantine, time.Now()
	test, incarnation := d.SelfTest, d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (struct{}, error) { return struct{}{}, test(life) },
		func(_ struct{}, err error) any { return &tested{incarnation, err} })
}

func (d *device) onTested(ctx actor.Context, msg *tested) {
	if msg.incarnation != d.incarnation {
		return
	}
	requesters := d.releaseRequesters
	d.selfTesting, d.releaseRequesters = false, nil
	failure := ""
	switch {
	case d.quarantine == nil:
	case d.quarantine != d.tested:
		failure = "quarantined again during the self-test: " + d.quarantine.GetDetail()
	case msg.err == nil:
		d.endQuarantine("self-test passed")
	default:
		failure = "self-test failed: " + msg.err.Error()
		d.Log.Warn().Err(msg.err).Msg("device self-test failed")
		d.quarantine = proto.Clone(d.quarantine).(*messages.Quarantine) // the old one is in messages
		d.quarantine.SelfTest = "failed: " + msg.err.Error()
	}
	for _, a := range requesters {
		result := d.releasedResult(a.requestID)
		if d.quarantine != nil {
			result.Outcome = &messages.ReleaseGpuResult_Refused{Refused: d.quarantineRefusal(failure)}
		}
		ctx.Send(a.replyTo, result)
	}
}

func (d *device) endQuarantine(why string) {
	d.Log.Info().Str("why", why).Msg("device released")
	d.Publish("gpu.released", d.Node+"/"+d.Name, why)
	d.quarantine = nil
}

func (d *device) releasedResult(requestID string) *messages.ReleaseGpuResult {
	return &messages.ReleaseGpuResult{RequestId: requestID,
		Outcome: &messages.ReleaseGpuResult_Released{Released: d.status()}}
}

// quarantineRefusal returns the refusal of a request to a quarantined device.
func (d *device) quarantineRefusal(detail string) *messages.Refused {
	return &messages.Refused{
		Reason: messages.Reason_REASON_QUARANTINED, Detail: d.Node + "/" + d.Name + " is quarantined: " + detail +
			"; gpus.release ends the quarantine",
	}
}

// reasonOf returns the reason for a failed load.
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

// health returns the last observation as a message; nil before the first.
func (s *sharedState) health() *messages.GpuHealth {
	if s.lastObservation == nil {
		return nil
	}
	o := s.lastObservation
	return &messages.GpuHealth{
		Observed: timestamppb.New(s.observedAt), MemoryUsedBytes: uint64Reading(o.MemoryUsed),
		UtilisationPercent:       uint32Reading(o.Utilisation),
		MemoryUtilisationPercent: uint32Reading(o.MemoryUtilisation),
		TemperatureCelsius:       uint32Reading(o.Temperature), PowerMilliwatts: uint32Reading(o.Power),
		EccCorrected: uint64Reading(o.Corrected), EccUncorrectable: uint64Reading(o.Uncorrectable),
		RemapPending: o.RemapPending, RemapFailed: o.RemapFailed,
		PcieGeneration: uint32(o.PCIe.Generation), PcieWidth: uint32(o.PCIe.Width), Nvlinks: uint32(o.NVLinks),
		Events: s.events,
	}
}

func uint64Reading(r health.Reading) *uint64 {
	if !r.Known {
		return nil
	}
	return &r.Value
}

func uint32Reading(r health.Reading) *uint32 {
	if !r.Known {
		return nil
	}
	n := uint32(min(r.Value, math.MaxUint32))
	return &n
}
