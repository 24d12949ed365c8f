package replica

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// world is the environment of a replica, which behaves arbitrarily. It checks the invariants of
// doc.go by name.
type world struct {
	*rapid.T
	*driver
	model     Model
	confirmed map[string]bool // revisions that the deployment has confirmed so far
	submitted *Submission

	next    map[string]*progress // sequences that have not ended, by request
	running bool                 // the engine has a step
	asked   bool                 // the device has a request for a turn
	forgot  bool                 // the replica has forgotten it on standby
	holds   uint64               // turn that the device has granted; 0: none
	turns   uint64               // granted so far
	crashes map[string]int       // by request: crashes of steps that computed it
	alone   bool                 // the last crash was of a step with one entry
	hbm     map[int32]kv.Hash    // blocks as the HBM tier knows them
	pins    []string             // pins without an answer from the pool
	saves   int                  // SaveBlocks so far
	drained bool                 // Drained was sent since the last Drain
	shown   State                // last state that was published
	told    bool                 // that state was published
	level   bool                 // the wanted level is standby
	wrong   bool                 // a canary gave a wrong answer
	held2   string               // sequence that is held, as during a migration
}

// progress is the progress of a sequence at its session.
type progress struct{ next int } // index of its next token

func newWorld(t *rapid.T) *world {
	w := &world{T: t, next: make(map[string]*progress), crashes: make(map[string]int), hbm: make(map[int32]kv.Hash),
		told: true}
	cfg := Config{MaxSequences: rapid.IntRange(1, 3).Draw(t, "places"), MaxWaiting: 2,
		Revision: w.digestOf("requested"), Confirmed: w.digestOf("kept"), Router: rapid.Bool().Draw(t, "router"),
		CheckFolder: true, MaxAdapters: rapid.IntRange(0, 2).Draw(t, "adapters"),
		Standby: rapid.IntRange(0, 3).Draw(t, "standby") == 0,
		Watch: Watch{StepTimeout: time.Duration(rapid.IntRange(0, 3).Draw(t, "step timeout")) * time.Second,
			HungTimeout: 3 * time.Second, Canary: time.Duration(rapid.IntRange(0, 3).Draw(t, "canary")) * time.Second}}
	w.level = cfg.Standby
	w.driver, w.confirmed = newDriver(cfg), map[string]bool{cfg.Confirmed: true}
	w.model = Model{Lease: "m-0", Blocks: rapid.IntRange(5, 9).Draw(t, "blocks"), ContextTokens: 16,
		RevisionDigest: w.digestOf("loaded"), WeightsDigest: "w", AdapterPages: rapid.IntRange(0, 1).Draw(t, "pages")}
	if rapid.Bool().Draw(t, "recorded") {
		w.model.Canary = Answer{Prompt: []uint32{8}, Tokens: []uint32{1, 2, 3}} // as the engine computes it
	}
	w.see, w.manual = w.check, true
	return w
}

func (w *world) digestOf(label string) string {
	return rapid.SampledFrom([]string{"", "r-1", "r-2"}).Draw(w.T, label)
}

// snapshot is the state that an ignored event must not change.
type snapshot struct {
	state               State
	step                StepState
	memory              MemoryState
	lease               PoolState
	turn                TurnState
	fault               FaultState
	sequences, isolated int
	running, waiting    int
	steps, current      uint64
	shrink              shrink
	drain, standby      bool
	confirmed, found    string
	folder              Folder
	blocks              kv.Stats
	totals              Totals
}

func (w *world) snapshot() snapshot {
	m := w.m
	s := snapshot{state: m.state, step: m.step, memory: m.memory, lease: m.lease, turn: m.turnState, fault: m.fault,
		sequences: len(m.sequences), isolated: len(m.isolated), steps: m.steps, current: m.current.step,
		shrink: m.shrink, drain: m.drain, standby: m.standby,
		confirmed: m.confirmed, found: m.foundRevision, folder: m.folder, totals: m.totals}
	if m.batch != nil {
		s.running, s.waiting, s.blocks = m.batch.Running(), m.batch.Waiting(), m.pool.Stats()
	}
	return s
}

// event carries out an event and everything that follows from it.
func (w *world) event(event func() []Effect) {
	before, shown, faulty := w.snapshot(), visible(w.m.State()), w.m.Faulty()
	w.out = nil
	effects := event()
	if len(effects) == 1 {
		if _, ok := effects[0].(Ignored); ok && !reflect.DeepEqual(before, w.snapshot()) {
			w.Fatalf("ignored: %v: changed %+v to %+v", effects[0], before, w.snapshot())
		}
	}
	if now := visible(w.m.State()); (now != shown || w.m.Faulty() != faulty) && w.m.State() != Stopping {
		w.told = false
	}
	w.do(effects)
	if !w.told {
		w.Fatalf("published: %s was entered and not published", w.m.State())
	}
}

// visible returns the state that other actors see.
func visible(s State) State {
	switch s {
	case Saving, Saved:
		return Draining
	case Serving, Suspending, Standby, Draining, Failed, Created:
		return s
	}
	return Loading
}

// check checks an effect while it is carried out.
func (w *world) check(e Effect) {
	switch e := e.(type) {
	case StateChanged:
		w.shown = e.State
	case Publish:
		w.told = w.told || w.shown == w.m.State()
	case Attach:
		if w.next[e.ID] != nil {
			w.Fatalf("one end: %s was attached and has not ended", e.ID)
		}
		w.next[e.ID] = &progress{e.Base}
		w.checkAccepted()
	case Accept:
		w.checkAccepted()
	case Reattach:
		if p := w.next[e.ID]; p == nil || e.First+len(e.Tokens) != p.next || e.First != len(w.submitted.Output) {
			w.Fatalf("contiguous: %v repeats to a session with %d tokens, of %+v", e, len(w.submitted.Output), p)
		}
	case Interrupt:
		if w.next[e.ID] == nil {
			w.Fatalf("one end: %s was interrupted and is not here", e.ID)
		}
		if w.m.State() == Stopping {
			delete(w.next, e.ID)
		}
	case Drop:
		delete(w.next, e.ID)
	case Emit:
		w.checkEmit(e)
	case Poisoned:
		if !w.alone || w.crashes[e.ID] < 3 {
			w.Fatalf("isolated: %s was dropped after %d crashes, alone %t", e.ID, w.crashes[e.ID], w.alone)
		}
	case BlocksChanged:
		w.changeBlocks(e)
	case AskTurn, EndTurn:
		w.checkTurn(e)
	case RunStep:
		w.checkReported()
		w.checkStep()
	case RepeatStep:
		w.checkStep()
	default:
		w.checkRest(e)
	}
}

func (w *world) checkRest(e Effect) {
	switch e := e.(type) {
	case KVShrunk:
		reading, _ := w.m.pool.Draining()
		if e.Refusal == nil && (reading > 0 || w.m.pool.Stats().Blocks != w.m.shrink.blocks || w.running) {
			w.Fatalf("shrunk: %d blocks are read of those beyond %d", reading, w.m.shrink.blocks)
		}
	case Drained:
		left := slices.DeleteFunc(slices.Collect(maps.Keys(w.next)), func(id string) bool {
			return !w.m.Has(id) // it is interrupted by one of the effects that follow
		})
		if len(left) > 0 || w.m.Stepping() {
			w.Fatalf("drained: %d sequences are left", len(left))
		}
		if w.drained {
			w.Fatal("drained: answered twice")
		}
		w.drained = true
	case SaveBlocks:
		held := 0 // it migrates, and keeps its blocks
		if w.held2 != "" {
			held = 1
		}
		if w.saves++; w.running || w.saves > 1 || w.m.batch.Running() > held {
			w.Fatalf("saved: blocks are saved %d times, in a step %t, %d sequences run", w.saves, w.running,
				w.m.batch.Running())
		}
	case SequencesSaved:
		if len(w.next) > 0 {
			w.Fatalf("saved: answered with %d sequences left", len(w.next))
		}
	case SendUnpin:
		if w.running {
			w.Fatalf("pinned: %s was unpinned during a step", e.Name)
		}
	case SendPin:
		w.pins = append(w.pins, e.Name)
	case FaultBegan:
		w.checkFault(e)
	case Verified:
		if w.level || w.m.State() == Standby {
			w.Fatal("check: it passes on standby")
		}
	case AnswerOffers:
		if w.running {
			w.Fatal("one step: offers are answered during a step")
		}
	}
}

// checkFault checks that the replica has a reason to leave service.
func (w *world) checkFault(e FaultBegan) {
	if e.Corrupt {
		if !w.wrong {
			w.Fatal("late: corrupt without a wrong canary")
		}
		return
	}
	took := w.now.Sub(w.m.current.began)
	if !w.running || w.m.cfg.Watch.StepTimeout == 0 || took < w.m.cfg.Watch.StepTimeout {
		w.Fatalf("late: hung after %s, in flight: %t", took, w.running)
	}
}

// checkAccepted checks that the replica may accept a sequence.
func (w *world) checkAccepted() {
	own := w.model.RevisionDigest
	if w.m.Faulty() {
		w.Fatal("late: a faulty replica accepts a sequence")
	}
	resumed := w.m.State() == Suspending && len(w.submitted.Output) > 0
	if w.m.State() != Serving && !resumed || own != "" && own != w.m.cfg.Revision && !w.confirmed[own] {
		w.Fatalf("serving: accepted in %s, with revision %q, confirmed %v", w.m.State(), own, w.confirmed)
	}
}

// checkStep checks that a step may start now.
func (w *world) checkStep() {
	if w.running || !w.m.InFlight() || w.m.memory == Shrunk {
		w.Fatalf("one step: a step starts: in flight %t, %s, memory %s", w.running, w.m.step, w.m.memory)
	}
	if w.m.State() == Stopping || w.m.State() < Confirming {
		w.Fatalf("stopped: a step starts in %s", w.m.State())
	}
	if w.saves > 0 {
		w.Fatal("saved: a step starts after the blocks were saved")
	}
	if w.holds == 0 {
		w.Fatalf("turns: a step starts without a turn, %s", w.m.turnState)
	}
	for _, e := range w.m.current.entries {
		if e.ID == canaryID && len(w.m.current.entries) > 1 {
			w.Fatal("canary: others are in its step")
		}
	}
	w.running = true
}

// checkTurn follows the turns of the replica as its device does.
func (w *world) checkTurn(e Effect) {
	end, ends := e.(EndTurn)
	if !ends {
		if w.holds != 0 {
			w.Fatalf("turns: asks for a turn, and turn %d has not ended", w.holds)
		}
		w.asked = true
		return
	}
	if w.running && (end.Turn == w.holds || end.Turn == 0) {
		w.Fatalf("turns: turn %d ends during a step", end.Turn)
	}
	if end.Turn == w.holds || end.Turn == 0 {
		w.holds, w.asked = 0, w.asked && end.Turn == 0
	}
	w.asked = w.asked || end.Next != nil
}

// checkReported checks that the HBM tier knows the content of the blocks. A repeated step has its
// blocks already.
func (w *world) checkReported() {
	if evicted, committed := w.m.pool.Changes(); len(evicted)+len(committed) > 0 {
		w.Fatalf("reported first: %v and %v are not reported", evicted, committed)
	}
}

func (w *world) checkEmit(e Emit) {
	for _, t := range e.Tokens {
		if t.ID == canaryID {
			w.Fatal("canary: its token is sent to a session")
		}
		p := w.next[t.ID]
		if p == nil {
			w.Fatalf("one end: %s has ended and gets token %d", t.ID, t.Index)
		}
		if t.Index != p.next {
			w.Fatalf("contiguous: %s gets token %d after %d", t.ID, t.Index, p.next)
		}
		p.next++
	}
	if w.m.State() == Stopping {
		w.Fatal("stopped: tokens after Stop")
	}
}

// changeBlocks applies changes as the HBM tier does.
func (w *world) changeBlocks(e BlocksChanged) {
	for _, b := range e.Evicted {
		delete(w.hbm, b)
	}
	for _, c := range e.Committed {
		w.hbm[c.Block] = c.Hash
	}
}

// checkState checks the invariants that hold between events.
func (w *world) checkState() {
	m := w.m
	if m.InFlight() != w.running {
		w.Fatalf("one step: the machine is %s, the engine has a step: %t", m.step, w.running)
	}
	if len(m.sequences) != len(w.next) {
		w.Fatalf("one end: the machine has %d sequences, and %d have not ended", len(m.sequences), len(w.next))
	}
	for id := range w.next {
		if !m.Has(id) {
			w.Fatalf("one end: %s is not here and has not ended", id)
		}
	}
	if m.step == Isolating && len(m.isolated) == 0 || m.step < Isolating && len(m.isolated) > 0 {
		w.Fatalf("isolated: %s with %d entries", m.step, len(m.isolated))
	}
	if m.state == Serving && w.level || m.state == Standby && (!w.level || len(w.next) > 0 || m.Stepping()) {
		w.Fatalf("level: %s with %d sequences and steps %s, wanted standby: %t", m.state, len(w.next), m.step, w.level)
	}
	if m.state == Standby && m.turnState != NoTurn {
		w.Fatalf("turns: %s on standby", m.turnState)
	}
	if unused := m.turnState == OneStep || m.turnState == RecalledTurn; unused && !m.Stepping() {
		w.Fatalf("turns: turn %d is kept without a step", w.holds)
	}
	w.forgot = w.asked && m.turnState == NoTurn && (w.forgot || m.state == Standby)
	if m.mayStep() != (w.holds != 0) || (m.turnState == AwaitingTurn) != (w.asked && !w.forgot) {
		w.Fatalf("turns: %s, turn %d granted, asked %t", m.turnState, w.holds, w.asked)
	}
	if w.waits() && !w.asked {
		w.Fatalf("turns: %d sequences run, and no turn was asked for", m.batch.Running())
	}
	if m.Faulty() && len(m.sequences) > 0 {
		w.Fatalf("late: %s with %d sequences", m.fault, len(m.sequences))
	}
	if s := m.Status(); s.Running < 0 || s.Waiting < 0 || s.Fault != nil != m.Faulty() ||
		len(m.sequences) == 0 && w.held2 == "" && s.Running+s.Waiting > 0 && m.state != Stopping {
		w.Fatalf("canary: status %+v with %d sequences", s, len(m.sequences))
	}
	serving := m.state >= Confirming && m.state <= Saved
	if serving != (m.step != Halted) {
		w.Fatalf("stopped: %s with steps %s", m.state, m.step)
	}
}
