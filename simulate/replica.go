package simulate

import (
	"time"

	"troupe/core/batch"
	"troupe/core/cost"
	core "troupe/core/replica"
	"troupe/core/route"
	"troupe/core/router"
)

// announceEvery is how long a replica whose changes of blocks did not fit one announcement waits before
// it sends the rest; see package replica.
const announceEvery = 300 * time.Millisecond

// maxRun is the largest number of steady steps that are planned at once.
const maxRun = 4096

// replica carries out the effects of a replica's machine, as the actor does. Its engine only takes
// time.
type replica struct {
	sim     *simulation
	index   int
	name    string
	model   *model
	device  *device
	times   StepTimer
	machine *core.Machine

	step     core.RunStep // in flight
	work     cost.Step    // of the step in flight
	stepEnd  time.Time    // of the step in flight; zero: none is
	ends     []time.Time  // of the steady steps from the one in flight on, and of the step after them
	endsBuf  []time.Time
	reportAt time.Time // the report timer; zero: not set
	// announceAt is the time of the announcement after one that left changes of blocks; zero: none did.
	announceAt time.Time
	sampled    []uint32
	pool       *adapterPool // nil: it takes no adapters
	tiering    *tiering     // nil: its node has no tiers
	aborted    *abort       // of the step in flight; nil: it is not
	changed    bool
}

// handle handles the replica's event.
func (r *replica) handle(k key) {
	switch k.kind {
	case stepEnds:
		r.sync(k)
		r.stepEnd, r.ends = time.Time{}, nil
		if a := r.aborted; a != nil {
			r.sim.record.abort(k.at, r, a)
			r.perform(r.machine.StepAborted(r.step.Step, a.entry, a.why, k.at), k.at)
			return
		}
		r.perform(r.machine.StepDone(r.step.Step, r.sample(), nil, k.at), k.at)
	default:
		r.fire(k.kind, k.at)
	}
}

// fire handles a timer.
func (r *replica) fire(timer kind, now time.Time) {
	switch timer {
	case reportTimer:
		r.reportAt = time.Time{}
		r.perform(r.machine.Fired(core.ReportTimer, 0, now), now)
	case announceTimer:
		r.announceAt = time.Time{}
		r.perform(r.machine.Fired(core.AnnounceTimer, 0, now), now)
	}
}

// submit submits a sequence.
func (r *replica) submit(id string, q *request, now time.Time) {
	r.ends = nil
	r.perform(r.machine.Submit(&core.Submission{Request: batch.Request{
		ID: id, Class: r.model.Class, Arrived: now, Root: r.model.rootOf(q.adapter),
		Prompt: q.tokens, MaxOutput: q.output,
		Client: q.client, Adapter: keyOf(q.adapter),
	}, Adapter: adapterOf(q.adapter)}, now), now)
}

// perform carries out the machine's effects, in order.
func (r *replica) perform(effects []core.Effect, now time.Time) {
	if !r.changed {
		r.changed = true
		r.sim.changed = append(r.sim.changed, r)
	}
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.StepEnded, core.Advance:
			r.advance(now)
		case core.RunStep:
			r.runStep(e, now)
		case core.Emit:
			r.emit(e, now)
		case core.SetTimer:
			switch e.Timer {
			case core.ReportTimer:
				r.reportAt = now.Add(e.After)
			case core.AdapterTimer:
				r.sim.after(e.After, r.adapterTimer)
			}
		case core.Announce:
			r.announce(e, now)
		case core.AskTurn:
			r.device.ask(r, e, now)
		case core.EndTurn:
			r.device.ended(r, e, now)
		case core.Refuse:
			r.sim.refused(e.ID, e.Detail)
		case core.Interrupt:
			r.sim.refused(e.ID, e.Detail)
		case core.Preempted:
			r.sim.record.preempt(now, r, e)
		default:
			if !r.performTiers(e) {
				r.performAdapters(e)
			}
		}
	}
	r.machine.Recycle(effects)
}

// advance starts the next step, unless one is in flight or there is nothing to compute.
func (r *replica) advance(now time.Time) {
	r.perform(r.machine.Advance(0, now), now)
	if !r.machine.MayPlan() {
		return
	}
	r.tiering.applyRestores()
	if r.perform(r.machine.Release(), now); r.machine.MayPlan() {
		r.tiering.tick()
		r.perform(r.machine.Plan(now), now)
	}
}

func (r *replica) runStep(e core.RunStep, now time.Time) {
	before := r.step
	r.step, r.work = e, workOf(e.Entries)
	r.stepEnd = now.Add(r.took(r.work))
	if r.tiering != nil {
		r.stepEnd, r.aborted = r.tiering.pass(e.Entries, now, r.took(r.work))
	}
	r.sim.record.step(r, before, now)
}

// took returns how long a step takes: at least a nanosecond, so that time goes on.
func (r *replica) took(work cost.Step) time.Duration { return max(1, r.times.Time(work)) }

// workOf returns what a step computes.
func workOf(entries []batch.Entry) (work cost.Step) {
	for i := range entries {
		if e := &entries[i]; len(e.Tokens) == 1 && e.Sample {
			work = work.AddDecode(e.Position)
		} else {
			work = work.AddPrompt(len(e.Tokens), e.Position)
		}
	}
	return work
}

// sample returns a token for each entry that samples: one that no other request has.
func (r *replica) sample() []uint32 {
	r.sampled = r.sampled[:0]
	for i := range r.step.Entries {
		if e := &r.step.Entries[i]; e.Sample {
			r.sampled = append(r.sampled, r.sim.requests[e.ID].token())
		}
	}
	return r.sampled
}

// emit notes the times of tokens.
func (r *replica) emit(e core.Emit, now time.Time) {
	for i := range e.Tokens {
		t := &e.Tokens[i]
		q := r.sim.requests[t.ID]
		if t.Index == 0 {
			q.first = now
		}
		if t.Finish != batch.None {
			q.finished(t.Index+1, now)
			r.sim.record.finish(now, r, t.ID, q)
			delete(r.sim.requests, t.ID)
		}
	}
}

// announce reports to the router.
func (r *replica) announce(e core.Announce, now time.Time) {
	s := r.machine.Status()
	report := router.Report{
		Replica: route.Replica{Name: r.name, State: stateOf(s.State), Running: s.Running, Waiting: s.Waiting,
			MaxSequences: r.model.MaxSequences, StepTokens: r.model.StepTokens, BlockTokens: r.model.BlockTokens,
			KVBlocks: s.Blocks.Blocks, KVBlocksFree: s.Blocks.Free, Adapters: residences(s.Adapters)},
		Model: r.model.Name, Actor: router.Actor{ID: r.name}, Incarnation: 1,
		Evicted: e.Evicted, Committed: e.Committed, Snapshot: e.Snapshot,
	}
	if r.announceAt = (time.Time{}); r.machine.Unannounced() {
		r.announceAt = now.Add(announceEvery)
	}
	r.sim.performRouter(r.sim.router.Reported(report, now))
}

func stateOf(s core.State) route.State {
	switch s {
	case core.Serving:
		return route.Serving
	case core.Suspending, core.Standby:
		return route.Suspended
	case core.Draining, core.Saving, core.Saved:
		return route.Draining
	case core.Failed:
		return route.Failed
	}
	return route.Loading
}
