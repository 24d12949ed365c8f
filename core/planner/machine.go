package planner

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/schedule"
	"troupe/core/units"
)

// Interval is the longest time between two plans.
const Interval = 10 * time.Second

const (
	// observeTimeout to storeTimeout are how long an answer may take. The caller's own limits are shorter, so
	// that these only pass if an answer is lost.
	acquireTimeout = 5 * time.Second
	observeTimeout = 5 * time.Second
	surveyTimeout  = 5 * time.Second
	planTimeout    = time.Minute
	storeTimeout   = 10 * time.Second
	// storeFor is how long a round stores deployments. What is left is planned again.
	storeFor = time.Second

	askTimeout = 15 * time.Second // after which a question is not answered any longer
	maxAsks    = 64
	// MaxHistory is the number of plans that are kept, of those that changed something.
	MaxHistory = 50
)

// At is the time of an event, with the leadership and the pause at that time.
type At struct {
	Time   time.Time
	Term   uint64 // of this node's leadership; 0: another node leads
	Paused bool
}

// Machine decides what a planner does. It is not safe for concurrent use.
type Machine struct {
	options schedule.Options
	state   State
	effects []Effect
	rounds  uint64 // counts rounds, so that answers to earlier ones are recognized
	round   round
	until   time.Time // an answer is awaited
	clock   time.Time // of the last tick
	asks    []ask
	leading
}

// leading is what a planner remembers while it leads.
type leading struct {
	term       uint64
	since      time.Time
	memory     schedule.Memory
	last       *Record // last plan that was not only asked for
	history    []*Record
	counts     Counts
	seen       seen
	again      string // why the next observation leads to a plan; empty: it need not
	resumes    bool   // it was paused since the last plan
	lively     time.Time
	active     map[string]time.Time // last request, by model
	waiting    map[string]time.Time // since when requests wait, by model
	written    map[string]written   // by model, not observed yet
	later      uint64               // latest term of another planner whose plans were observed; 0: none
	outdatedAt time.Time            // when it was observed first
	told       map[string]bool      // by model: whether it was last told of a refusal
	silent     map[string]time.Time // since when devices have not answered
	lost       map[string]lost      // by replica
	changed    []string             // devices whose quarantine has begun or ended since the last plan
	fetched    map[string]fetched   // by replica: adapters that it was last told to fetch ahead
}

// written is a write that has not been observed yet.
type written struct {
	revision uint64
	at       time.Time
}

// ask is a question with its time.
type ask struct {
	Ask
	at time.Time
}

// round is an observation, and the plan and the writes that it leads to.
type round struct {
	number   uint64
	step     time.Time // when the present step began
	dry      bool      // nothing is stored: the plan was only asked for
	seen     Observation
	record   *Record
	models   map[string]schedule.Model // as planned
	index    index                     // of the plan
	writes   []Write                   // not begun
	revision map[string]uint64         // by model, after the writes of this round
	fetches  []Prefetch                // adapters to be fetched ahead
	changed  int                       // number of leading.changed that the survey sees
}

// event is one event. Only the fields of its kind are set.
type event struct {
	At
	kind       Event
	round      uint64
	ask        Ask
	failed     bool // there is no answer
	seen       *Observation
	behind     bool
	outdated   bool
	causes     []string
	devices    []Device
	capacities map[string][]float64
	outcome    Outcome
	revision   uint64
	failure    string
}

// New returns the machine of a planner.
func New(options schedule.Options) *Machine { return &Machine{options: options} }

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Soon reports whether the next tick must come early: in 100 ms instead of a second.
func (m *Machine) Soon(now time.Time) bool {
	return m.term != 0 && (len(m.asks) > 0 || m.again != "" || now.Before(m.lively))
}

// Changed reports that the cluster may have changed in a way that calls for a plan. It makes the next ticks come
// early, since another round may be under way and does not see the change.
func (m *Machine) Changed(now time.Time) {
	if soon := now.Add(changedFor); m.term != 0 && soon.After(m.lively) {
		m.lively = soon
	}
}

// DeviceChanged reports that the quarantine of a device has begun or ended.
func (m *Machine) DeviceChanged(device string, now time.Time) {
	if m.term != 0 && !slices.Contains(m.changed[m.round.changed:], device) {
		m.changed = append(m.changed, device)
		m.Changed(now)
	}
}

// Tick must be called every second, and earlier while Soon.
func (m *Machine) Tick(at At) []Effect {
	m.rewind(at.Time)
	return m.handle(event{At: at, kind: Tick})
}

// Asked asks for a plan that is not stored. It is answered by Answer.
func (m *Machine) Asked(a Ask, at At) []Effect { return m.handle(event{At: at, kind: Asked, ask: a}) }

// Acquired reports that Acquire has ended, with or without success.
func (m *Machine) Acquired(at At) []Effect { return m.handle(event{At: at, kind: Acquired}) }

// Viewed answers Observe. o is nil if the router did not answer.
func (m *Machine) Viewed(round uint64, o *Observation, at At) []Effect {
	e := event{At: at, kind: Viewed, round: round, failed: o == nil, seen: o}
	if m.state == Observing && round == m.round.number && at.Term == m.term && o != nil {
		m.note(o, at.Time)
		m.recall(o, at.Time)
		e.behind, e.outdated = m.behind(o, at.Time), m.isOutdated(o, at.Time)
		if m.resumes = m.resumes || at.Paused; !at.Paused {
			e.causes = m.causes(o, at.Time)
		}
	}
	return m.handle(e)
}

// Surveyed answers Survey with the devices of all nodes, and with the capacities of the deployments where they are
// known; see schedule.Demand. Devices that did not answer are silent.
func (m *Machine) Surveyed(round uint64, devices []Device, capacities map[string][]float64, at At) []Effect {
	return m.handle(event{At: at, kind: Surveyed, round: round, devices: devices, capacities: capacities})
}

// Planned answers MakePlan. r is nil if it failed.
func (m *Machine) Planned(round uint64, r *Result, at At) []Effect {
	if m.state == Planning && round == m.round.number && at.Term == m.term && r != nil {
		m.take(r, at)
	}
	return m.handle(event{At: at, kind: Planned, round: round, failed: r == nil})
}

// Stored answers Store. revision is that of the stored value, with Done. failure says why it was not stored.
func (m *Machine) Stored(round uint64, o Outcome, revision uint64, failure string, at At) []Effect {
	return m.handle(event{At: at, kind: Stored, round: round, outcome: o, revision: revision, failure: failure})
}

func (m *Machine) handle(e event) []Effect {
	m.apply(e)
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// acquire forgets everything, since another planner may lead meanwhile.
func (m *Machine) acquire(e event) {
	m.leading = leading{}
	m.deny(e)
	m.until = e.Time.Add(acquireTimeout)
	m.emit(Acquire{})
}

func (m *Machine) nothing(event) {}

// observe begins a round.
func (m *Machine) observe(e event) {
	if m.term != e.Term {
		m.leading = leading{
			term: e.Term, since: e.Time, active: make(map[string]time.Time), waiting: make(map[string]time.Time),
			written: make(map[string]written), told: make(map[string]bool), silent: make(map[string]time.Time),
			fetched: make(map[string]fetched), lost: make(map[string]lost),
			again: fmt.Sprintf("this node leads in term %d", e.Term),
		}
	}
	m.expire(e.Time)
	m.rounds++
	m.round = round{number: m.rounds, step: e.Time}
	m.until = e.Time.Add(observeTimeout)
	m.emit(Observe{m.rounds})
}

// survey begins a plan.
func (m *Machine) survey(e event) {
	m.round.seen, m.round.dry = *e.seen, len(e.causes) == 0
	m.round.record = &Record{Term: m.term, At: e.Time, Causes: e.causes, Planned: e.seen.Deployments,
		Outcome: "in progress"}
	if m.round.dry {
		m.round.record.Causes = []string{"asked"}
	}
	m.end("collect deployments", e.Time, units.Count(len(e.seen.Deployments), "deployment")+", "+
		units.Count(len(e.seen.Nodes), "node"))
	m.until, m.round.changed = e.Time.Add(surveyTimeout), len(m.changed)
	m.emit(Survey{m.round.number, e.seen.Nodes})
}

// plan requests the plan.
func (m *Machine) plan(e event) {
	silent := 0
	for _, d := range e.devices {
		if d.Silent {
			silent++
		}
	}
	m.end("collect devices", e.Time, fmt.Sprintf("%s, %d silent", units.Count(len(e.devices), "device"), silent))
	for i := range m.round.seen.Deployments {
		of := &m.round.seen.Deployments[i].Model
		of.Demand.Capacities = e.capacities[of.Name]
	}
	s := m.snapshot(&m.round.seen, e.devices, e.Time)
	m.round.record.Snapshot = s
	m.round.models = make(map[string]schedule.Model, len(s.Models))
	for _, model := range s.Models {
		m.round.models[model.Name] = model
	}
	m.until = e.Time.Add(planTimeout)
	var explain []string
	for _, a := range m.asks {
		if a.Model != "" {
			explain = append(explain, a.Model)
		}
	}
	m.emit(MakePlan{m.round.number, s, explain})
}

// take adds a plan to the round, with the writes that it leads to.
func (m *Machine) take(result *Result, at At) {
	r := &m.round
	r.record.Plan, r.record.Verdicts = result.Plan, result.Verdicts
	r.index = indexOf(&r.record.Plan)
	m.steps(at.Time)
	m.prefetch(at.Time)
	r.dry = r.dry || at.Paused
	switch {
	case at.Paused:
		r.record.Outcome = "not stored: the planner is paused"
	case r.dry:
		r.record.Outcome = "not stored: it was only asked for"
	case len(r.writes) == 0:
		r.record.Outcome = "nothing to change"
	}
	if !r.dry {
		m.counts.Plans++
		r.record.Number = m.counts.Plans
		m.memory, m.last, m.again, m.resumes = result.Plan.Memory, r.record, "", false
		m.changed, r.changed = m.changed[r.changed:], 0
		m.noteLost()
		m.see(at.Time)
	}
}

// store stores the next deployment.
func (m *Machine) store(e event) {
	r := &m.round
	w := r.writes[0]
	r.writes = r.writes[1:]
	if at, again := r.revision[w.Name]; again {
		w.Revision = at
	}
	r.record.Writes = append(r.record.Writes, w)
	m.until = e.Time.Add(storeTimeout)
	m.emit(Store{r.number, w})
}

// stored notes that the last write has ended.
func (m *Machine) stored(e event) {
	r := &m.round
	w := &r.record.Writes[len(r.record.Writes)-1]
	w.Outcome, w.Failure = e.outcome, e.failure
	if e.outcome == Done {
		if r.revision == nil {
			r.revision = make(map[string]uint64)
		}
		r.revision[w.Name] = e.revision
		m.written[w.Name] = written{e.revision, e.Time}
		m.seen.stored(w.Name, e.revision)
	}
}

func (m *Machine) storeNext(e event) {
	m.stored(e)
	m.store(e)
}

// conclude ends a round that has stored all of its writes, or stops storing because of a pause or after storeFor.
func (m *Machine) conclude(e event) {
	m.stored(e)
	m.round.record.Outcome = "stored"
	if left := len(m.round.writes); left > 0 {
		m.round.record.Outcome, m.resumes = "not stored: the planner is paused", e.Paused
		if !e.Paused {
			m.again = units.Count(left, "deployment") + units.Verb(left, " is", " are") + " not stored yet"
			m.round.record.Outcome = "stored, but " + m.again
		}
		m.forgetUnstored()
	}
	m.end("store", e.Time, units.Count(len(m.round.record.Writes), "write"))
	m.finish(e)
}

// stop ends a round with a write that failed. The next round begins with a new observation.
func (m *Machine) stop(e event) {
	m.stored(e)
	r := m.round.record
	w := r.Writes[len(r.Writes)-1]
	r.Outcome = fmt.Sprintf("%s: %s: %s", w.Outcome, w.Name, w.Failure)
	m.again = fmt.Sprintf("%s: %s", w.Name, w.Outcome)
	if e.outcome == Conflict {
		m.counts.Conflicts++
	} else {
		m.counts.Failed++
	}
	m.forgetUnstored()
	m.end("store", e.Time, units.Count(len(r.Writes), "write"))
	m.finish(e)
}

// finish ends a round with a plan.
func (m *Machine) finish(e event) {
	r := m.round.record
	if !m.round.dry {
		m.refuse()
		m.fetch(e.Time)
		if r.Changed() {
			m.counts.Changed++
			m.lively = e.Time.Add(livelyFor)
			m.history = append(m.history, r)
			if len(m.history) > MaxHistory {
				m.history = m.history[1:]
			}
		}
		m.emit(Ended{r})
	}
	m.answer(r, e.Time)
}

// giveUp ends a round that lacks an answer or needs no plan.
func (m *Machine) giveUp(e event) {
	if r := m.round.record; r != nil && m.state == Storing {
		w := &r.Writes[len(r.Writes)-1]
		w.Outcome, w.Failure = Unknown, "the store did not answer"
		r.Outcome = fmt.Sprintf("%s: %s: %s", w.Outcome, w.Name, w.Failure)
		m.counts.Failed++
		m.again = w.Name + ": " + w.Outcome.String()
		m.finish(e)
	}
	m.round = round{}
}

// abandon ends the leadership of this node.
func (m *Machine) abandon(e event) {
	m.round, m.leading = round{}, leading{}
	m.answer(nil, e.Time)
}
