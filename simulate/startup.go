package simulate

import (
	"time"

	"troupe/core/deployment"
	memory "troupe/core/device"
	"troupe/core/preempt"
	core "troupe/core/replica"
)

// performLife carries out the effects of the life cycle.
func (r *replica) performLife(effect core.Effect, now time.Time) {
	d := r.device
	switch e := effect.(type) {
	case core.LoadModel:
		d.changed()
		for _, other := range d.replicas {
			if other != r {
				other.reportKV(now) // in the product it is at most a second old
			}
		}
		spec := memory.Spec{
			Lease: r.name, Path: r.model.digest(), Model: r.model.Name, Started: r.incarnation,
			BlockTokens: r.model.BlockTokens, Blocks: r.model.KVBlocks, StepTokens: r.model.StepTokens,
			MaxSequences: r.model.MaxSequences, Revision: r.model.digest(), Deploy: r.spec.Revision.Deploy,
			MaxAdapters: r.model.Adapters.max(), AdapterPages: r.model.Adapters.pages(),
		}
		r.loadParts(spec)
		d.performMemory(d.memory.LoadAsked(memory.Request{ID: r.name, From: r.owner()}, spec, d.health.State(), now))
	case core.AdoptBlocks:
		r.openTiers()
		r.post(func(now time.Time) []core.Effect { return r.machine.Adopted(nil, now) })
	case core.Open:
		r.startEngine()
	case core.ReportKV:
		d.reported(r, memory.Report{Blocks: e.Blocks, MinBlocks: e.Least, WantedBlocks: e.Wanted,
			Priority: int(r.model.Class), LastUsed: e.LastUsed.UnixNano(), Standby: e.Standby,
			StandbyWanted: e.StandbyWanted, Serving: e.Serving,
			Engine: memory.Engine{Since: e.Engine.Since, Graphs: e.Engine.Graphs, Capture: e.Engine.Took}})
	case core.KVShrunk:
		d.shrunk(r, e)
	case core.Drained:
		if !r.cutOff() {
			r.model.post(deployment.Drained{Replica: r.name, Departures: preempt.Counts(e.Departures)})
		}
	case core.SaveBlocks:
		r.saveBlocks(now)
	case core.SequencesSaved:
		if !r.cutOff() {
			r.model.post(deployment.Saved{Replica: r.name, Blocks: e.Blocks, Detail: e.Fault})
		}
	case core.FaultBegan:
		r.sim.record.note(now, "fault", "replica", r.name, "why", e.Detail)
	case core.FaultEnded:
		r.sim.record.note(now, "recover", "replica", r.name, "why", e.Detail)
	case core.Suspect:
		d.performHealth(d.health.Suspect(e.Detail, now))
	}
}

// startEngine starts the engine, which captures its graphs.
func (r *replica) startEngine() {
	took := r.device.Costs.Capture
	if r.sim.starting() {
		took = 0
	}
	r.sim.after(took, r.alive(func(now time.Time) []core.Effect {
		return r.machine.EngineReady(0, core.Capture{Took: took}, now)
	}))
}

func (r *replica) loaded(e memory.AnswerLoad, now time.Time) {
	m := e.Model
	r.retryAt = time.Time{}
	r.perform(r.machine.Loaded(core.Model{Adopted: e.Adopted, Lease: m.Lease, Handle: m.Handle, Blocks: m.Blocks,
		BlockBytes: uint64(m.BlockBytes), ContextTokens: m.ContextTokens, AdapterPages: m.AdapterPages,
		RevisionDigest: m.Revision, WeightsDigest: m.Weights}, now), now)
}

var loadReasons = map[memory.Reason]core.Reason{memory.NotReady: core.NotReady, memory.NoMemory: core.NoMemory}

// loadRefused tells the replica that it cannot be loaded.
func (r *replica) loadRefused(why memory.Refusal, now time.Time) {
	reason, known := loadReasons[why.Reason]
	if !known {
		reason = core.LoadFailed
	}
	r.failure = failureOf(why, r.device)
	r.perform(r.machine.LoadRefused(core.Refusal{Reason: reason, Detail: why.Detail, RetryAfter: why.RetryAfter},
		why.Found, now), now)
}

// failureOf returns the failure that a deployment learns of a load that was refused.
func failureOf(why memory.Refusal, d *device) *deployment.Failure {
	f := &deployment.Failure{Reason: deployment.LoadFailed, Detail: why.Detail, RetryAfter: why.RetryAfter}
	switch why.Reason {
	case memory.NoMemory:
		f.Reason = deployment.NoMemory
	case memory.InQuarantine, memory.DeviceFailed:
		f.Reason, f.Detail = deployment.Quarantined, d.name()+" is quarantined"
	}
	return f
}
