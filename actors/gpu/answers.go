package gpu

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	core "troupe/core/device"
	"troupe/messages"
	"troupe/modelfile/digest"
)

var reasons = map[core.Reason]messages.Reason{
	core.NotReady:      messages.Reason_REASON_NOT_READY,
	core.InQuarantine:  messages.Reason_REASON_QUARANTINED,
	core.Failed:        messages.Reason_REASON_LOAD_FAILED,
	core.DeviceFailed:  messages.Reason_REASON_QUARANTINED,
	core.NoMemory:      messages.Reason_REASON_NO_MEMORY,
	core.WeightsDiffer: messages.Reason_REASON_WEIGHTS_DIFFER,
	core.Outdated:      messages.Reason_REASON_CONFLICT,
	core.NotFound:      messages.Reason_REASON_NOT_FOUND,
	core.NotFreed:      messages.Reason_REASON_CONFLICT,
	core.NotSupported:  messages.Reason_REASON_UNSUPPORTED,
	core.InUse:         messages.Reason_REASON_CONFLICT,
	core.NotOwner:      messages.Reason_REASON_CONFLICT,
}

func refused(r core.Refusal) *messages.Refused {
	m := &messages.Refused{Reason: reasons[r.Reason], Detail: r.Detail}
	if r.RetryAfter > 0 {
		m.RetryAfter = durationpb.New(r.RetryAfter)
	}
	return m
}

func loadedResult(device string, e core.AnswerLoad) *messages.LoadModelResult {
	m, metrics := e.Model, &messages.SwitchMetrics{Source: "device"}
	if !e.Adopted && !e.Shared {
		metrics = &messages.SwitchMetrics{
			Load: durationpb.New(e.Took - m.Verify), Source: m.From, Why: m.FromWhy, Floor: known(m.Floor),
			Bytes: uint64(m.Size.Weights), Verify: durationpb.New(m.Verify),
		}
	}
	var canary *messages.CanaryRecord
	if m.Canary.Valid() {
		canary = &messages.CanaryRecord{Prompt: m.Canary.Prompt, Tokens: m.Canary.Tokens, RecordedBy: m.Canary.By}
	}
	return &messages.LoadModelResult{RequestId: e.To.ID,
		Outcome: &messages.LoadModelResult_Loaded{Loaded: &messages.ModelLoaded{
			Lease: m.Lease, Device: device, KvBlocks: uint32(m.Blocks), KvBlockBytes: uint64(m.BlockBytes),
			ContextTokens: uint32(m.ContextTokens), Vocab: uint32(m.Vocab), Eos: m.EOS,
			Metrics: metrics, Adopted: e.Adopted, AdapterPages: uint32(m.AdapterPages),
			KvBlocksAlone: uint32(e.BlocksAlone), WeightsDigest: m.Weights, RevisionDigest: m.Revision,
			Shared: e.Shared, Handle: m.Handle, Canary: canary,
		}}}
}

// known returns a duration; nil if it is 0, which means that it is unknown.
func known(t time.Duration) *durationpb.Duration {
	if t == 0 {
		return nil
	}
	return durationpb.New(t)
}

func (d *device) refusedLoad(e core.RefuseLoad) *messages.LoadModelResult {
	r := refused(e.Refusal)
	switch {
	case e.Refusal.Reason == core.InQuarantine:
		q, _ := d.quarantine.Current()
		r = d.quarantineRefusal(q.Detail)
	case e.Refusal.Reason == core.WeightsDiffer && r.Detail == "":
		r.Detail = fmt.Sprintf("lease %s holds revision %s, not the requested %s; "+
			"it is reloaded once the lease is released",
			e.Spec.Lease, digest.Short(e.Refusal.Found), digest.Short(e.Spec.Revision))
	case e.Refusal.Reason == core.Outdated:
		r.Detail = "lease " + e.Spec.Lease +
			" was loaded before the last models.deploy; it is reloaded once the lease is released"
	case e.Refusal.Overload != nil:
		r.Memory = messages.ShortOfMemory(e.Spec.Path, e.Refusal.Overload)
		r.Memory.Evictable = uint64(e.Refusal.Evictable)
	case e.Refusal.Unverified != nil:
		r.Unverified = d.unverified(e.Spec.Path, e.Refusal.Unverified)
	}
	return &messages.LoadModelResult{RequestId: e.To.ID, FoundRevision: e.Refusal.Found,
		Outcome: &messages.LoadModelResult_Refused{Refused: r}}
}

func (d *device) unverified(path string, u *core.Unverified) *messages.UnverifiedWeights {
	m := &messages.UnverifiedWeights{Model: path, Device: d.Node + "/" + d.Name, Remedy: u.Remedy}
	for _, r := range u.Rejections {
		m.Sources = append(m.Sources, &messages.RejectedSource{
			Source: r.Source.Name, Tokens: r.Got, Recorded: r.Recorded.Tokens,
		})
	}
	return m
}

func unloadedResult(e core.AnswerUnload) *messages.UnloadModelResult {
	return &messages.UnloadModelResult{RequestId: e.To.ID, Outcome: &messages.UnloadModelResult_Unloaded{
		Unloaded: &messages.ModelUnloaded{Lease: e.Lease, Bytes: uint64(e.Bytes)},
	}}
}

func refusedUnload(e core.RefuseUnload) *messages.UnloadModelResult {
	return &messages.UnloadModelResult{RequestId: e.To.ID,
		Outcome: &messages.UnloadModelResult_Refused{Refused: refused(e.Refusal)}}
}

func adaptersResult(e core.AnswerAdapters) *messages.LeaseAdaptersResult {
	return &messages.LeaseAdaptersResult{RequestId: e.To.ID, Outcome: &messages.LeaseAdaptersResult_Leased{
		Leased: &messages.AdaptersLeased{Lease: e.Lease, Pages: uint32(e.Pages)},
	}}
}

func refusedAdapters(e core.RefuseAdapters) *messages.LeaseAdaptersResult {
	return &messages.LeaseAdaptersResult{RequestId: e.To.ID,
		Outcome: &messages.LeaseAdaptersResult_Refused{Refused: refused(e.Refusal)}}
}

func evictedResult(e core.AnswerEvict, s *messages.GpuStatus) *messages.EvictWeightsResult {
	return &messages.EvictWeightsResult{RequestId: e.To.ID, Outcome: &messages.EvictWeightsResult_Evicted{Evicted: s}}
}

func (d *device) refusedEvict(e core.RefuseEvict) *messages.EvictWeightsResult {
	r := refused(e.Refusal)
	if e.Model != "" {
		r.NotLoaded = &messages.ModelNotLoaded{Model: e.Model, Device: d.Node + "/" + d.Name}
	}
	return &messages.EvictWeightsResult{RequestId: e.To.ID, Outcome: &messages.EvictWeightsResult_Refused{Refused: r}}
}

func quarantinedResult(requestID string, s *messages.GpuStatus) *messages.QuarantineGpuResult {
	return &messages.QuarantineGpuResult{RequestId: requestID,
		Outcome: &messages.QuarantineGpuResult_Quarantined{Quarantined: s}}
}

func releasedResult(requestID string, s *messages.GpuStatus) *messages.ReleaseGpuResult {
	return &messages.ReleaseGpuResult{RequestId: requestID,
		Outcome: &messages.ReleaseGpuResult_Released{Released: s}}
}

func refusedRelease(requestID string, r *messages.Refused) *messages.ReleaseGpuResult {
	return &messages.ReleaseGpuResult{RequestId: requestID,
		Outcome: &messages.ReleaseGpuResult_Refused{Refused: r}}
}

// quarantineRefusal returns the refusal of a request to a quarantined device.
func (d *device) quarantineRefusal(detail string) *messages.Refused {
	return &messages.Refused{
		Reason: messages.Reason_REASON_QUARANTINED, Detail: d.Node + "/" + d.Name + " is quarantined: " + detail +
			"; gpus.release ends the quarantine",
	}
}
