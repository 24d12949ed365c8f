package migrate

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	maxOutgoing    = 4                      // sequences that migrate at once; the other sequences of a command wait
	resendEvery    = 250 * time.Millisecond // between two sends of an unanswered message to the target
	maxResends     = 8                      // then the target counts as lost
	migrateTimeout = 2 * time.Minute        // maximum time since the offer; then the sequence continues here
	pauseTimeout   = 2 * time.Second        // maximum time since the pause; then the sequence continues here
	maxHandedOver  = 64                     // attempts that moved their sequence and are remembered
)

// SourceConfig is fixed for the life of a Source.
type SourceConfig struct {
	Name        string // of the replica
	Self        Actor
	BlockTokens int
	StepTokens  int
	// FirstAttempt is larger than the number of any attempt of an earlier incarnation.
	FirstAttempt uint64
}

// Source decides how sequences migrate from a replica. It is not safe for concurrent use.
type Source struct {
	cfg        SourceConfig
	plane      Plane
	blockBytes int

	term     uint64 // highest term of any command
	attempt  uint64 // number of the last attempt
	commands []*command
	outgoing map[string]*outgoing // by request id: offered sequences

	// sends holds the blocks that are being read, by attempt. A cancelled send reads its blocks
	// until it ends, so it may outlive the attempt.
	sends      map[Key][]int32
	handedOver []uint64 // the last attempts that moved their sequence
	effects    []Effect
	slotFreed  bool // a migration has ended, so the next one may start
}

// outgoing is a sequence that migrates from here. After any failure the sequence continues here.
type outgoing struct {
	Key
	command   *command
	state     SourceState
	sent      int      // number of times that the last message to the target was sent
	unsent    []uint32 // blocks that the target lacks and that are not being sent yet
	accounted int      // number of leading blocks that are sent, unsent, or resident at the target
	capacity  int      // number of blocks that the transfer has room for
	report    Report
	startedAt time.Time
	pausedAt  time.Time
}

// NewSource returns a source that refuses all commands until Open.
func NewSource(cfg SourceConfig) *Source {
	return &Source{cfg: cfg, attempt: cfg.FirstAttempt, outgoing: make(map[string]*outgoing),
		sends: make(map[Key][]int32)}
}

// Open allows migrations of blocks of the given size. Size 0 means that there is no data plane.
func (m *Source) Open(blockBytes int) {
	if m.plane, m.blockBytes = PlaneUp, blockBytes; blockBytes == 0 {
		m.plane = NoPlane
	}
}

// Migrating reports whether a sequence is being migrated.
func (m *Source) Migrating(id string) bool { return m.outgoing[id] != nil }

// Uses reports whether a migration to another replica is in progress.
func (m *Source) Uses(peer Actor) bool {
	for _, o := range m.outgoing {
		if o.command.To == peer {
			return true
		}
	}
	return false
}

// Pausing returns, in order, the sequences that wait for the end of a step before they can be sent.
func (m *Source) Pausing() (ids []string) {
	for _, o := range m.outgoing {
		if o.state == Pausing {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Offered reports that the target accepted an offer.
func (m *Source) Offered(k Key, from Actor, missing []uint32, capacity int, s Sequence, now time.Time) []Effect {
	return m.event(k, event{kind: Offered, from: from, missing: missing, capacity: capacity, sequence: s, now: now})
}

// OfferRefused reports that the target refused an offer.
func (m *Source) OfferRefused(k Key, detail string, now time.Time) []Effect {
	return m.event(k, event{kind: OfferRefused, detail: detail, now: now})
}

// Sent reports that the blocks of SendBlocks were sent.
func (m *Source) Sent(k Key, s Sequence, now time.Time) []Effect {
	m.releaseSent(k)
	return m.event(k, event{kind: Sent, sequence: s, now: now})
}

// SendFailed reports that the blocks of SendBlocks were not sent.
func (m *Source) SendFailed(k Key, detail string, now time.Time) []Effect {
	m.releaseSent(k)
	return m.event(k, event{kind: SendFailed, detail: detail, now: now})
}

// StepEnded reports the end of a step. all has the state of the sequences of Pausing.
func (m *Source) StepEnded(all []Sequence, now time.Time) []Effect {
	for _, s := range all {
		if o := m.outgoing[s.ID]; o != nil {
			m.on(o, event{kind: StepEnded, sequence: s, now: now})
		}
	}
	return m.take()
}

// Resumed reports that the sequence now runs at the given incarnation of the target.
func (m *Source) Resumed(k Key, incarnation uint64, node string, now time.Time) []Effect {
	return m.event(k, event{kind: Resumed, incarnation: incarnation, node: node, now: now})
}

// ResumeFailed reports that the target does not run the sequence.
func (m *Source) ResumeFailed(k Key, detail string, now time.Time) []Effect {
	return m.event(k, event{kind: ResumeFailed, detail: detail, now: now})
}

// Timer reports that the timer of an attempt fired.
func (m *Source) Timer(k Key, now time.Time) []Effect {
	return m.event(k, event{kind: Timer, now: now})
}

// Cancel aborts the migration of a sequence, if there is one.
func (m *Source) Cancel(id, why string, now time.Time) []Effect {
	if o := m.outgoing[id]; o != nil {
		m.on(o, event{kind: Cancelled, detail: why, now: now})
	}
	return m.take()
}

// Lost reports that a replica stopped or cannot be reached.
func (m *Source) Lost(peer Actor, now time.Time) []Effect {
	for _, o := range m.ordered() {
		if o.command.To == peer {
			m.on(o, event{kind: Lost, now: now})
		}
	}
	return m.take()
}

// PlaneLost reports a crash that ended all sends.
func (m *Source) PlaneLost(now time.Time) []Effect {
	for _, k := range slices.SortedFunc(maps.Keys(m.sends), CompareKeys) {
		m.releaseSent(k)
		if o := m.outgoing[k.ID]; o != nil && o.Key == k {
			m.on(o, event{kind: PlaneLost, now: now})
		}
	}
	return m.take()
}

// Stop ends all migrations before the replica stops or restarts. Commands are not answered.
func (m *Source) Stop(now time.Time) []Effect {
	m.plane, m.commands = PlaneOff, nil
	for _, o := range m.ordered() {
		m.on(o, event{kind: Stopped, now: now})
	}
	clear(m.sends)
	return m.take()
}

// ordered returns the migrations in progress, by request id.
func (m *Source) ordered() (all []*outgoing) {
	for _, id := range slices.Sorted(maps.Keys(m.outgoing)) {
		all = append(all, m.outgoing[id])
	}
	return all
}

// event applies an event to an attempt. The attempt may have ended already.
func (m *Source) event(k Key, e event) []Effect {
	o := m.outgoing[k.ID]
	if o == nil || o.Attempt != k.Attempt {
		o = &outgoing{Key: k, state: Ended}
	}
	m.on(o, e)
	return m.take()
}

func (m *Source) on(o *outgoing, e event) {
	r := sourceTable.Find(o.state, e.kind, func(holds condition[Source, outgoing]) bool { return holds(m, o, e) })
	switch {
	case r == nil:
		m.emit(Ignored{o.Key, o.state.String(), e.kind, "unexpected"})
		return
	case r.Do == nil:
		m.emit(Ignored{o.Key, o.state.String(), e.kind, r.When.Name})
		return
	case r.To != same:
		o.state = r.To
	}
	r.Do(m, o, e)
}

func (m *Source) emit(e Effect) { m.effects = append(m.effects, e) }

func (m *Source) take() []Effect {
	if m.slotFreed { // last, since the next migration may be of the same sequence
		m.emit(StartNext{})
	}
	effects := m.effects
	m.effects, m.slotFreed = nil, false
	return effects
}

func (m *Source) releaseSent(k Key) {
	if blocks, ok := m.sends[k]; ok {
		delete(m.sends, k)
		m.emit(ReleaseBlocks{blocks})
	}
}

// CompareKeys orders keys by request id and attempt.
func CompareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Attempt, b.Attempt))
}
