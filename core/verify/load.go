package verify

import (
	"slices"
	"strings"
)

// State is the state of a load.
type State uint8

// States of a load.
const (
	Loading  State = iota // weights are copied from a source
	Checking              // a canary runs
	Accepted              // the weights may serve
	Failed                // no source had weights that may serve
)

func (s State) String() string { return [...]string{"loading", "checking", "accepted", "failed"}[s] }

// Event is a kind of event of a load.
type Event uint8

// Events of a load.
const (
	evLoaded Event = iota
	evComputed
	evExhausted
)

func (e Event) String() string { return [...]string{"loaded", "computed", "exhausted"}[e] }

// Source is a source that weights on a device were copied from.
type Source struct {
	Name string // "host cache", "node b"
	// Doubtful is set if the weights could differ from the files of the model: they come from an image.
	// Others were compared with the digest of the files while they were read.
	Doubtful bool
}

// Rejection is the rejection of weights whose canary gave other tokens than the record.
type Rejection struct {
	Source   Source
	Got      []uint32
	Recorded Record
}

// Why says how the tokens differ.
func (r Rejection) Why() string { return difference(r.Got, r.Recorded.Tokens) }

// Load decides whether weights that one load has copied may serve. It is not safe for concurrent use.
type Load struct {
	state    State
	sources  []Source // of the weights that are checked
	rejected []Rejection
	effects  []Effect
}

type loadEvent struct {
	kind     Event
	sources  []Source
	tokens   []uint32
	recorded *Record
	more     bool
}

// NewLoad returns a load that has begun.
func NewLoad() *Load { return &Load{} }

// Loaded reports that the weights are on the device, and where their bytes came from.
func (l *Load) Loaded(sources ...Source) []Effect {
	return l.on(loadEvent{kind: evLoaded, sources: sources})
}

// Computed reports the tokens of the canary. recorded is what it must give; nil if nothing is recorded.
// more reports whether another source may be tried.
func (l *Load) Computed(tokens []uint32, recorded *Record, more bool) []Effect {
	return l.on(loadEvent{kind: evComputed, tokens: tokens, recorded: recorded, more: more})
}

// Exhausted reports that no other source could be loaded from.
func (l *Load) Exhausted() []Effect { return l.on(loadEvent{kind: evExhausted}) }

// State returns the state.
func (l *Load) State() State { return l.state }

// Rejected returns the rejections, in order.
func (l *Load) Rejected() []Rejection { return slices.Clone(l.rejected) }

// Doubts reports whether the load has rejected weights from a source.
func (l *Load) Doubts(source string) bool {
	return slices.ContainsFunc(l.rejected, func(r Rejection) bool { return r.Source.Name == source })
}

func (l *Load) compute(e loadEvent) {
	l.sources = e.sources
	l.emit(Compute{})
}

func (l *Load) record(e loadEvent) {
	l.emit(Recorded{e.tokens})
	l.accept(e)
}

// accept confirms that the sources that were rejected are at fault: the device computes the right tokens.
func (l *Load) accept(loadEvent) {
	for _, r := range l.rejected {
		if r.Source.Doubtful {
			l.emit(Suspect{r})
		}
	}
	l.emit(Accept{})
}

func (l *Load) reject(e loadEvent) {
	for _, s := range l.sources {
		r := Rejection{s, e.tokens, *e.recorded}
		l.rejected = append(l.rejected, r)
		l.emit(Drop{r})
	}
}

func (l *Load) tryNext(e loadEvent) {
	l.reject(e)
	l.emit(Next{})
}

func (l *Load) rejectLast(e loadEvent) {
	l.reject(e)
	l.fail(e)
}

// fail ends the load. If no source gave the right tokens, none of them is known to be at fault, but the
// device may be.
func (l *Load) fail(loadEvent) {
	l.emit(TestDevice{})
	l.emit(Fail{slices.Clone(l.rejected)})
}

func (l *Load) emit(e Effect) { l.effects = append(l.effects, e) }

// Names returns the names of sources, in order.
func Names(all []Rejection) string {
	var names []string
	for _, r := range all {
		if !slices.Contains(names, r.Source.Name) {
			names = append(names, r.Source.Name)
		}
	}
	return strings.Join(names, ", ")
}
