package simulate

import (
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/deployment"
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
	sim         *simulation
	index       int
	name        string
	id          string // of its actor, which is that of all its incarnations
	incarnation uint64 // increases with each start and restart
	model       *model
	device      *device
	spec        deployment.ReplicaSpec
	times       StepTimer
	machine     *core.Machine
	ended       bool
	began       time.Time           // when it was started
	up          bool                // it has served
	told        told                // what its deployment knows
	failure     *deployment.Failure // why it cannot be loaded

	step     core.RunStep // in flight
	work     cost.Step    // of the step in flight
	stepEnd  time.Time    // of the step in flight; zero: none is
	ends     []time.Time  // of the steady steps from the one in flight on, and of the step after them
	endsBuf  []time.Time
	reportAt time.Time // the report timer; zero: not set
	// announceAt is the time of the announcement after one that left changes of blocks; zero: none did.
	announceAt time.Time
	retryAt    time.Time     // the timer of the startup; zero: not set
	watchAt    time.Time     // the timer of the watch over steps; zero: not set
	hangs      time.Duration // added to the next step
	load       reported      // as last reported
	sampled    []uint32
	pool       *adapterPool // nil: it takes no adapters
	tiering    *tiering     // nil: its node has no tiers
	migration  *migration
	aborted    *abort   // of the step in flight; nil: it is not
	severed    []string // sequences that it had when the network of its node was cut
	changed    bool
	group      group
	use        usage
}

// handle handles the replica's event.
func (r *replica) handle(k key) {
	switch k.kind {
	case stepEnds:
		r.sync(k)
		r.sim.series.stepsEnded(r, k.at)
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

// touch brings the replica up to date before something else than its own events changes it.
func (r *replica) touch() {
	r.sync(r.sim.key)
	r.ends = nil
	r.change()
}

// change notes that the next event of the replica may be another one.
func (r *replica) change() {
	if !r.changed {
		r.changed = true
		r.sim.changed = append(r.sim.changed, r)
	}
}

// fire handles a timer.
func (r *replica) fire(timer kind, now time.Time) {
	switch timer {
	case retryTimer:
		r.retryAt = time.Time{}
		r.fired(core.RetryTimer, now)
	case watchTimer:
		r.watchAt = time.Time{}
		r.fired(core.WatchTimer, now)
	case reportTimer:
		r.reportAt = time.Time{}
		r.fired(core.ReportTimer, now)
	case announceTimer:
		r.announceAt = time.Time{}
		r.fired(core.AnnounceTimer, now)
	}
}

func (r *replica) fired(timer core.Timer, now time.Time) {
	r.perform(r.machine.Fired(timer, r.migration.postponed(), now), now)
}

// submit submits a sequence, with the output that its session has.
func (r *replica) submit(q *request, waited time.Duration, now time.Time) {
	r.touch()
	output := slices.Repeat([]uint32{q.token()}, q.emitted)
	r.perform(r.machine.Submit(&core.Submission{Request: r.request(q, output, waited, now),
		Adapter: adapterOf(q.adapter)}, now), now)
}

// request returns the request of the scheduler for a sequence with some output.
func (r *replica) request(q *request, output []uint32, waited time.Duration, now time.Time) batch.Request {
	return batch.Request{ID: q.id, Class: r.model.Class, Arrived: now, Waited: waited,
		Root: r.model.rootOf(q.adapter), Prompt: q.tokens, Output: output, MaxOutput: q.output, Client: q.client,
		Adapter: keyOf(q.adapter)}
}

// perform carries out the machine's effects, in order.
func (r *replica) perform(effects []core.Effect, now time.Time) {
	r.change()
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.StepEnded:
			r.migration.between()
			r.advance(now)
		case core.Advance:
			r.advance(now)
		case core.RunStep:
			r.runStep(e, now)
		case core.Emit:
			r.emit(e, now)
		case core.SetTimer:
			r.setTimer(e, now)
		case core.Announce:
			r.announce(e, now)
		case core.Publish:
			r.publish()
		case core.AskTurn:
			r.device.ask(r, e, now)
		case core.EndTurn:
			r.device.ended(r, e, now)
		case core.Accept:
			q := r.sim.requests[e.ID]
			q.perform(q.machine.Accepted(r.session(), 0, "", now))
		case core.Reattach:
			r.sim.requests[e.ID].reattached(e, now)
		case core.Refuse:
			r.sim.requests[e.ID].refusedBy(r, e.Refusal, now)
		case core.Interrupt:
			if q := r.sim.requests[e.ID]; q != nil && !r.cutOff() {
				q.interrupted(r, e.Refusal)
			}
		case core.Preempted:
			r.sim.record.preempt(now, r, e)
			r.migration.performReplica(effect)
		default:
			r.performTiers(effect)
			r.migration.performReplica(effect)
			r.performAdapters(effect)
			r.performLife(effect, now)
		}
	}
	r.machine.Recycle(effects)
	r.sim.series.observe(r, now)
}

// setTimer sets a timer. That of the announcements is set by announce, and the device asks for reports on the KV
// memory when it needs them.
func (r *replica) setTimer(e core.SetTimer, now time.Time) {
	switch e.Timer {
	case core.ReportTimer:
		r.reportAt = now.Add(e.After)
	case core.RetryTimer:
		r.retryAt = now.Add(e.After)
	case core.WatchTimer:
		r.watchAt = now.Add(e.After)
	case core.AdapterTimer:
		r.sim.after(e.After, r.alive(func(now time.Time) []core.Effect {
			return r.machine.Fired(core.AdapterTimer, r.migration.postponed(), now)
		}))
	}
}

// advance starts the next step, unless one is in flight or there is nothing to compute.
func (r *replica) advance(now time.Time) {
	if r.ended {
		return
	}
	r.perform(r.machine.Advance(r.migration.postponed(), now), now)
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
	took := r.took(r.work)
	if r.stepEnd, r.aborted = now.Add(took), nil; r.tiering != nil {
		r.stepEnd, r.aborted = r.tiering.pass(e.Entries, now, took)
	}
	r.stepEnd, r.hangs = r.stepEnd.Add(r.hangs), 0
	r.sim.series.stepBegan(r, now)
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
			token := uint32(0)
			if q := r.sim.requests[e.ID]; q != nil { // it has not ended elsewhere while this step hung
				token = q.token()
			}
			r.sampled = append(r.sampled, token)
		}
	}
	return r.sampled
}

// emit notes the times of tokens.
func (r *replica) emit(e core.Emit, now time.Time) {
	for i := range e.Tokens {
		t := &e.Tokens[i]
		q := r.sim.requests[t.ID]
		if q == nil || q.replica != r || r.cutOff() {
			continue // the session does not hear from the replica, or no longer listens to it
		}
		if q.emitted = t.Index + 1; t.Index == 0 {
			q.first = now
			q.model.window.FirstToken(now, now.Sub(q.at))
		}
		if t.Finish != batch.None {
			q.finished(r, now)
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
		Model: r.model.Name, Actor: router.Actor(r.address()), Incarnation: r.incarnation,
		Evicted: e.Evicted, Committed: e.Committed, Snapshot: e.Snapshot,
	}
	if r.announceAt = (time.Time{}); r.machine.Unannounced() {
		r.announceAt = now.Add(announceEvery)
	}
	if r.cutOff() {
		return
	}
	r.load = reported{s.Running, s.Waiting, s.Blocks.Blocks, s.Blocks.Free, s.Totals.TokensIn + s.Totals.TokensOut}
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
