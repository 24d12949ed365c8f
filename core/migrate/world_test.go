package migrate

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/batch"
	"troupe/core/kv"
)

const (
	testBlockTokens = 4
	testBlockBytes  = 100
	maxSequences    = 20
)

var (
	epoch       = time.Unix(1e9, 0)
	atA         = Actor{"n", "a"} // the source replica
	atB         = Actor{"n", "b"} // the target replica
	operator    = Actor{"n", "operator"}
	testShape   = Shape{"m", "layout", testBlockTokens, testBlockBytes}
	testContext = 1000
)

// world is a source and a target, a network between them that loses, repeats and reorders messages,
// a data plane on each side that fails and crashes, and sessions. It checks the invariants of
// doc.go by name.
type world struct {
	*rapid.T
	now    time.Time
	depth  int // nesting of events caused by effects
	source *Source
	target *Target

	sequences map[string]*testSequence
	network   []testMessage
	late      []testMessage // copies of messages that were delivered
	timers    []testTimer
	watched   map[string]bool // by machine: it watches the other replica

	stepping bool // a step of the source is in flight
	retained int  // number of referenced blocks
	offers   map[Key]SendOffer
	asked    map[Key]SendResume
	between  bool // no step of the target is in flight
	mode     Mode
	sends    map[Key]*testSend
	ended    map[Key]bool // attempts that the source has ended
	commands map[string]*testCommand
	order    Command // last command

	sinks        map[Key]*testSink
	child        []func() // commands of the target that its data plane has not handled
	reservations map[Key]bool
	pins         map[string]bool // adapters that a failed Reserve has pinned, by sequence
	capacity     map[Key]int     // reserved blocks
	resident     map[Key]int
	outcomes     map[Key]bool // whether ResumeSequence was answered with success
	arriving     testOffer    // offer in the message being handled
	tokens       int          // tokens in the message being handled
	kept         map[Key]testOffer
	expiries     map[Key]int // timers of attempts that have not fired
	resumes      map[Key]int // tokens of the kept ResumeSequence messages
}

// testSequence is a sequence and its location.
type testSequence struct {
	id                 string
	tokens             int
	queued             bool // queued at the source
	atSource, atTarget bool
	held, inStep       bool // held at the source, or in a step there
	redirected         bool // its session uses the target
	claimed            bool // its session has contacted the target after that
	over               bool // it has finished or was cancelled
}

type testMessage struct {
	name    string
	deliver func()
}

type testTimer struct {
	at   time.Time
	fire func()
}

type testSend struct {
	effect    SendBlocks
	filled    []int // tokens in each block when the send began
	cancelled bool
}

type testSink struct {
	opened   int  // number of times it was opened
	crashed  bool // the data plane has crashed
	blocks   int
	resident int
	filled   map[int]int // tokens in each block that has arrived
	open     bool
	lastAt   time.Time
}

type testCommand struct{ ids, asked, answers int }

type testOffer struct {
	tokens int
	source Actor
}

func newWorld(t *rapid.T) *world {
	w := &world{T: t, now: epoch, between: true, mode: Serving,
		source: NewSource(SourceConfig{Name: "a", Self: atA, BlockTokens: testBlockTokens, StepTokens: 8,
			FirstAttempt: 100}),
		target:    NewTarget("b"),
		sequences: map[string]*testSequence{}, watched: map[string]bool{}, sends: map[Key]*testSend{},
		ended: map[Key]bool{}, commands: map[string]*testCommand{}, sinks: map[Key]*testSink{},
		offers: map[Key]SendOffer{}, asked: map[Key]SendResume{}, pins: map[string]bool{}, capacity: map[Key]int{},
		resident: map[Key]int{}, outcomes: map[Key]bool{}, reservations: map[Key]bool{}, kept: map[Key]testOffer{},
		resumes: map[Key]int{}, expiries: map[Key]int{}}
	w.source.Open(testBlockBytes)
	w.target.Open(testShape)
	return w
}

func (w *world) own() Own { return Own{w.mode, testContext} }

// describe returns the state of a sequence at the source.
func (w *world) describe(id string) Sequence {
	s := w.sequences[id]
	if s == nil || !s.atSource {
		return Sequence{ID: id}
	}
	if s.queued {
		return Sequence{ID: id, Here: true, Queued: true}
	}
	p := batch.Progress{Tokens: s.tokens, Left: 1}
	for i := range (s.tokens + testBlockTokens - 1) / testBlockTokens {
		p.Blocks = append(p.Blocks, int32(i))
	}
	p.Hashes = make([]kv.Hash, s.tokens/testBlockTokens)
	return Sequence{ID: id, Here: true, InFlight: s.inStep, Progress: p}
}

func (w *world) describeAll(ids []string) (all []Sequence) {
	for _, id := range ids {
		all = append(all, w.describe(id))
	}
	return all
}

// filled returns the number of tokens in a block of a sequence.
func filled(tokens, block int) int { return min(testBlockTokens, tokens-block*testBlockTokens) }

// do carries out an event of one machine and checks its effects.
func (w *world) do(machine string, event func() []Effect) {
	before := w.marks()
	effects := event()
	for _, e := range effects {
		if _, ok := e.(Ignored); ok && (len(effects) != 1 || !slices.Equal(before, w.marks())) {
			w.Fatalf("ignored: %v; before:\n%v\nafter:\n%v", effects, before, w.marks())
		}
	}
	w.depth++
	for _, e := range effects {
		w.carryOut(machine, e)
	}
	if w.depth--; w.depth == 0 {
		w.checkWatched()
	}
}

// mark is the state of one attempt or command.
type mark struct {
	Key
	state string
	n     [5]int
	at    time.Time
}

// marks returns the state of both machines.
func (w *world) marks() (all []mark) {
	for _, o := range w.source.ordered() {
		n := [5]int{o.sent, len(o.unsent), o.accounted, o.capacity, int(o.report.Bytes)}
		all = append(all, mark{o.Key, o.state.String(), n, o.pausedAt})
	}
	for _, in := range w.target.all() {
		all = append(all, mark{in.Key, in.state.String(), [5]int{len(in.missing), in.tokens}, in.heard})
	}
	for _, c := range w.source.commands {
		all = append(all, mark{Key{ID: c.RequestID}, c.state.String(), [5]int{len(c.waiting), c.active, len(c.reports)},
			time.Time{}})
	}
	return all
}

// send puts a message on the network.
func (w *world) send(name string, deliver func()) {
	w.network = append(w.network, testMessage{name, deliver})
}

func (w *world) after(d time.Duration, fire func()) {
	w.timers = append(w.timers, testTimer{w.now.Add(d), fire})
}

// carryOut carries out one effect of either machine.
func (w *world) carryOut(machine string, effect Effect) {
	switch e := effect.(type) {
	case Watch:
		w.watched[machine] = true
	case Unwatch:
		if !w.source.Uses(e.Peer) && !w.target.Uses(e.Peer) {
			w.watched[machine] = false
		}
	case DropSequence:
		w.drop(machine, e.ID)
	case Ignored:
	default:
		if !w.carryOutSource(effect) && !w.carryOutTarget(effect) {
			w.Fatalf("unknown effect %#v", effect)
		}
	}
	w.checkOwner()
}

// drop removes a sequence from the replica of a machine.
func (w *world) drop(machine, id string) {
	s := w.sequences[id]
	if machine == "source" {
		s.atSource, s.held = false, false
		return
	}
	s.atTarget = false
}

// checkWatched checks that the other replica is watched exactly while it takes part in a migration.
func (w *world) checkWatched() {
	if w.watched["source"] != w.source.Uses(atB) {
		w.Fatalf("watched: the source watches the target: %v", w.watched["source"])
	}
	for _, in := range w.target.incoming {
		if in.state >= Receiving && in.state < Releasing && !w.watched["target"] {
			w.Fatalf("watched: the target does not watch the source of %v", in.Key)
		}
	}
	if w.watched["target"] && !w.target.Uses(atA) {
		w.Fatal("watched: the target still watches the source")
	}
}

// checkOwner checks that each sequence has an owner, and only one owner once its session uses the
// target.
func (w *world) checkOwner() {
	for _, s := range w.sequences {
		if !s.over && !s.atSource && !s.atTarget {
			w.Fatalf("owned: %s is nowhere", s.id)
		}
		if !s.over && s.claimed && s.atSource && s.atTarget {
			w.Fatalf("sole: %s runs on both replicas after its session claimed it", s.id)
		}
	}
}

// finish ends a sequence on both replicas: its last token was sent, or its session was closed.
func (w *world) finish(s *testSequence) {
	s.over = true
	s.atTarget = false
	if s.atSource {
		s.atSource, s.held, s.inStep = false, false, false
		w.do("source", func() []Effect { return w.source.Cancel(s.id, "finished", w.now) })
	}
}

// pick draws one of the keys of a map from a sorted list.
func pick[V any](w *world, m map[string]V) (string, bool) {
	if len(m) == 0 {
		return "", false
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(w.T, "id"), true
}

func pickKey[V any](w *world, m map[Key]V) (Key, bool) {
	if len(m) == 0 {
		return Key{}, false
	}
	return rapid.SampledFrom(slices.SortedFunc(maps.Keys(m), CompareKeys)).Draw(w.T, "attempt"), true
}

func (w *world) ids() []string { return slices.Sorted(maps.Keys(w.sequences)) }
