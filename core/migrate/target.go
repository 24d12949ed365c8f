package migrate

import (
	"maps"
	"slices"
	"time"
)

const (
	maxIncoming     = 8               // sequences that may arrive at once; further offers are refused
	maxPostponed    = 2 * maxIncoming // offers that may wait; the source repeats those that were dropped
	incomingTimeout = 5 * time.Second // of a reservation, since the last message or block
	askInterval     = time.Second     // between questions when the last block arrived
	// adapterTimeout is the maximum time that an offer waits for its adapter. It is shorter than
	// the time after which the source gives up.
	adapterTimeout = 1500 * time.Millisecond
)

// Target decides how sequences migrate to a replica. It is not safe for concurrent use.
type Target struct {
	name  string // of the replica
	plane Plane
	shape Shape // of its blocks

	incoming  map[string]*incoming // reservations, or answers that may be repeated, by request id
	postponed []*incoming          // oldest first, at most one for each sequence and source
	effects   []Effect
	freed     bool // blocks were freed that a waiting offer may need
}

// OfferedSequence describes a sequence that a source offers.
type OfferedSequence struct {
	Key
	Source  Actor
	Shape   Shape
	Tokens  int // tokens computed so far; 0: the sequence has no blocks
	Hashes  int // hashes of the full blocks
	Longest int // prompt and maximum output, in tokens
}

// Own is the state of the target replica at the time of an event.
type Own struct {
	Mode    Mode
	Context int // context limit in tokens
}

// incoming is an attempt to migrate a sequence here.
type incoming struct {
	OfferedSequence
	state   TargetState
	missing []uint32  // full blocks that the target lacks
	since   time.Time // time of the first offer, while it waits
	heard   time.Time // time of the last message or block from the source
	refusal *Refusal  // answer to ResumeSequence in state Refused
	tokens  int       // tokens computed, of a sequence that is to be resumed
}

// NewTarget returns a target that refuses all offers until Open.
func NewTarget(name string) *Target {
	return &Target{name: name, incoming: make(map[string]*incoming)}
}

// Open allows migrations to a replica whose blocks have the given shape. Blocks of 0 bytes mean
// that there is no data plane.
func (m *Target) Open(shape Shape) {
	if m.plane, m.shape = PlaneUp, shape; shape.BlockBytes == 0 {
		m.plane = NoPlane
	}
}

// Uses reports whether the blocks of sequences from a source arrive here or have just arrived.
func (m *Target) Uses(peer Actor) bool {
	for _, in := range m.incoming {
		if in.Source == peer && in.state >= Receiving && in.state < Releasing {
			return true
		}
	}
	return false
}

// Postponed returns the sequences whose offers wait, oldest first.
func (m *Target) Postponed() (ids []string) {
	for _, in := range m.postponed {
		ids = append(ids, in.ID)
	}
	return ids
}

// Offer handles an offer. A repeated offer gets the same answer. here reports whether the sequence
// is on this replica, and between whether no step is in flight.
func (m *Target) Offer(o OfferedSequence, own Own, here, between bool, now time.Time) []Effect {
	e := event{kind: OfferArrived, own: own, here: here, between: between, now: now}
	if in := m.incoming[o.ID]; in != nil {
		sameSource, runs := in.Source == o.Source, in.state == Running || in.state == Claimed
		switch {
		case sameSource && in.Attempt == o.Attempt:
			m.on(in, e)
			return m.take()
		case sameSource && in.Attempt > o.Attempt:
			m.emit(Ignored{o.Key, in.state.String(), e.kind, "of an earlier attempt"})
			return m.take()
		case sameSource && !runs, runs && !here: // a new attempt, or the sequence has ended here
			m.on(in, event{kind: Abandoned, now: now})
		}
	}
	if in := m.findPostponed(o.ID, o.Source); in != nil {
		m.replace(in, o)
		return m.take()
	}
	m.on(&incoming{OfferedSequence: o, since: now}, e)
	return m.take()
}

// replace updates an offer that waits. Its adapter stays pinned.
func (m *Target) replace(in *incoming, o OfferedSequence) {
	if o.Attempt <= in.Attempt {
		m.emit(Ignored{o.Key, in.state.String(), OfferArrived, "already waiting"})
		return
	}
	m.emit(Forget{in.Key})
	in.OfferedSequence = o
	m.emit(KeepOffer{in.Key})
}

// StepEnded answers the offers that wait. No step may be in flight. here lists the sequences of
// Postponed that are on this replica.
func (m *Target) StepEnded(own Own, here []string, now time.Time) []Effect {
	for _, in := range slices.Clone(m.postponed) {
		m.on(in, event{kind: StepEnded, own: own, here: slices.Contains(here, in.ID), now: now})
	}
	return m.take()
}

// Reserved reports that the blocks of an offer are reserved. The first resident blocks already have
// the right content.
func (m *Target) Reserved(k Key, resident int, now time.Time) []Effect {
	return m.event(k, event{kind: Reserved, resident: resident, now: now})
}

// NotReserved reports that the blocks of an offer are not reserved, perhaps because its adapter is
// still loading.
func (m *Target) NotReserved(k Key, why Refusal, loading bool, now time.Time) []Effect {
	return m.event(k, event{kind: NotReserved, refusal: why, loading: loading, now: now})
}

// Opened reports that the transfer of OpenSink is open.
func (m *Target) Opened(k Key, now time.Time) []Effect {
	return m.event(k, event{kind: Opened, now: now})
}

// OpenFailed reports that the transfer of OpenSink is not open.
func (m *Target) OpenFailed(k Key, detail string, now time.Time) []Effect {
	return m.event(k, event{kind: OpenFailed, detail: detail, now: now})
}

// Resume handles the request to continue a sequence, of which the given number of tokens is
// computed. A repeated request gets the same answer.
func (m *Target) Resume(k Key, from Actor, tokens int, own Own, now time.Time) []Effect {
	e := event{kind: ResumeArrived, from: from, tokens: tokens, own: own, now: now}
	if in := m.incoming[k.ID]; in != nil && in.Source != from {
		m.on(&incoming{OfferedSequence: OfferedSequence{Key: k, Source: from}, state: Gone}, e)
		return m.take()
	}
	return m.event(k, e)
}

// Closed reports that the transfer of CloseSink is closed, and whether its blocks have arrived.
func (m *Target) Closed(k Key, complete bool, own Own, now time.Time) []Effect {
	return m.event(k, event{kind: Closed, complete: complete, own: own, now: now})
}

// Adopted reports that the sequence of Adopt runs here.
func (m *Target) Adopted(k Key, now time.Time) []Effect {
	return m.event(k, event{kind: Adopted, now: now})
}

// NotAdopted reports that the sequence of Adopt does not run here.
func (m *Target) NotAdopted(k Key, why Refusal, now time.Time) []Effect {
	return m.event(k, event{kind: NotAdopted, refusal: why, now: now})
}

// Abandoned reports that the source keeps the sequence, or that the sequence has ended. here
// reports whether the sequence is on this replica.
func (m *Target) Abandoned(k Key, here bool, now time.Time) []Effect {
	return m.event(k, event{kind: Abandoned, here: here, now: now})
}

// Claim reports that the session of a sequence has contacted this replica. From then on the source
// cannot abandon the migration.
func (m *Target) Claim(id string, now time.Time) {
	if in := m.incoming[id]; in != nil && in.state == Running {
		m.on(in, event{kind: Claim, now: now})
	}
}

// Expire reports that the timer of an attempt fired.
func (m *Target) Expire(k Key, now time.Time) []Effect {
	return m.event(k, event{kind: Timer, now: now})
}

// Heard reports when the last block of an attempt arrived; zero means that none has.
func (m *Target) Heard(k Key, at, now time.Time) []Effect {
	return m.event(k, event{kind: Heard, heard: at, now: now})
}

// Lost reports that a replica stopped or cannot be reached.
func (m *Target) Lost(peer Actor, now time.Time) []Effect {
	for _, in := range m.all() {
		if in.Source == peer {
			m.on(in, event{kind: Lost, now: now})
		}
	}
	return m.take()
}

// PlaneLost reports a crash that closed all transfers.
func (m *Target) PlaneLost(now time.Time) []Effect {
	for _, in := range m.all() {
		m.on(in, event{kind: PlaneLost, now: now})
	}
	return m.take()
}

// Stop forgets all attempts before the replica stops or restarts. Their transfers are closed before
// the next incarnation uses the blocks.
func (m *Target) Stop(now time.Time) []Effect {
	m.plane = PlaneOff
	for _, in := range m.all() {
		m.on(in, event{kind: Stopped, now: now})
	}
	return m.take()
}

// all returns the attempts; those that are postponed come last.
func (m *Target) all() (all []*incoming) {
	for _, id := range slices.Sorted(maps.Keys(m.incoming)) {
		all = append(all, m.incoming[id])
	}
	return append(all, m.postponed...)
}

// event applies an event to an attempt. An unknown attempt is in state Gone.
func (m *Target) event(k Key, e event) []Effect {
	in := m.incoming[k.ID]
	if in == nil || in.Attempt != k.Attempt {
		i := slices.IndexFunc(m.postponed, func(in *incoming) bool { return in.Key == k })
		if in = nil; i >= 0 {
			in = m.postponed[i]
		}
	}
	if in == nil {
		in = &incoming{OfferedSequence: OfferedSequence{Key: k, Source: e.from}, state: Gone}
	}
	m.on(in, e)
	return m.take()
}

func (m *Target) on(in *incoming, e event) {
	r := targetTable.Find(in.state, e.kind, func(holds condition[Target, incoming]) bool { return holds(m, in, e) })
	switch {
	case r == nil:
		m.emit(Ignored{in.Key, in.state.String(), e.kind, "unexpected"})
		return
	case r.To != same:
		in.state = r.To
	}
	r.Do(m, in, e)
}

func (m *Target) emit(e Effect) { m.effects = append(m.effects, e) }

func (m *Target) take() []Effect {
	if m.freed && len(m.postponed) > 0 { // last, since the next attempt may be of the same sequence
		m.emit(AnswerOffers{})
	}
	effects := m.effects
	m.effects, m.freed = nil, false
	return effects
}

func (m *Target) findPostponed(id string, source Actor) *incoming {
	for _, in := range m.postponed {
		if in.ID == id && in.Source == source {
			return in
		}
	}
	return nil
}
