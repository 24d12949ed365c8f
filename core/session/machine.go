package session

import (
	"time"

	"troupe/core/wake"
)

const (
	checkInterval  = 400 * time.Millisecond  // between checks of a silent replica
	silenceTimeout = 1200 * time.Millisecond // then the session abandons the replica
	placeInterval  = wake.AskInterval        // between two requests for the place at the router
	// answerTimeout is how long a session stays with a replica that answers nothing, though the
	// router still hears from its node and returns it again.
	answerTimeout = 10 * time.Second
	minRetryDelay = 20 * time.Millisecond // before the next route request
	// maxInterruptions is the number of interruptions that a sequence survives without a new token.
	// After more, the sequence is assumed to crash its replicas.
	maxInterruptions = 8
	// maxFaults is the number of replicas that may become faulty under a sequence without a new
	// token. After that, the sequence is assumed to be the cause, and it takes no more of them.
	maxFaults = 3
)

// Config is fixed for the life of a machine.
type Config struct {
	Adapter  bool      // the sequence has an adapter
	Deadline time.Time // of the request; zero: none
	Placed   time.Time // of an earlier machine of the session, or of another sequence of the request; zero: none
	Begun    bool      // a replica was found for an earlier machine, or another sequence of the request has output
}

// Machine decides what a session does. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	state State

	seen     int    // output tokens that the client has
	revision string // digest of the files that computed the output
	// fingerprint is that of revision.
	fingerprint uint64

	replica    Replica   // assigned; zero while routing
	other      Actor     // also sends tokens, or is about to take over; zero: none
	otherSince time.Time // when other was set
	abandoned  Replica   // silent, and may still run the sequence; zero: none

	avoid         []string  // replicas lost since the last new token
	interruptions int       // since the last new token
	faults        int       // of them, those by faulty replicas
	cause         string    // of the next route request, for its explanation
	waiting       string    // why the router has no replica; empty: it was not asked, or has one
	placed        time.Time // when it was first routed, or began to wait; zero: not yet
	begun         bool      // a replica was found for it

	attempt uint64    // counts routes and submissions; stale timers have a lower one
	heard   time.Time // when a replica was last heard from, or given the sequence
	// answered is when a replica was last heard from, or another one than the silent one was given
	// the sequence.
	answered time.Time
	due      time.Time // when the timer fires

	effects []Effect
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind        Event
	now         time.Time
	from        Actor // sender, or the lost actor
	to          Replica
	refusal     Refusal
	tokens      Tokens
	incarnation uint64
	digest      string
	known       bool
	output      int
	attempt     uint64
}

// New returns a machine in state Created.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, placed: cfg.Placed, begun: cfg.Begun} }

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Start starts the session with the output that the client has and the digest of the files that
// computed it.
func (m *Machine) Start(output int, digest string, now time.Time) []Effect {
	return m.on(event{kind: Start, output: output, digest: digest, now: now})
}

// Routed reports the replica that the router returned.
func (m *Machine) Routed(to Replica, now time.Time) []Effect {
	return m.on(event{kind: Routed, to: to, now: now})
}

// RouteRefused reports the router's refusal.
func (m *Machine) RouteRefused(why Refusal, now time.Time) []Effect {
	return m.on(event{kind: RouteRefused, refusal: why, now: now})
}

// Queued reports that the router gave the sequence a place, since no replica serves yet.
func (m *Machine) Queued(now time.Time) []Effect { return m.on(event{kind: Queued, now: now}) }

// Accepted reports that an incarnation of a replica accepted the sequence, and the digest of its files.
func (m *Machine) Accepted(from Actor, incarnation uint64, digest string, now time.Time) []Effect {
	return m.on(event{kind: Accepted, from: from, incarnation: incarnation, digest: digest, now: now})
}

// SubmitRefused reports that a replica refused the sequence.
func (m *Machine) SubmitRefused(from Actor, why Refusal, now time.Time) []Effect {
	return m.on(event{kind: SubmitRefused, from: from, refusal: why, now: now})
}

// Emitted reports tokens.
func (m *Machine) Emitted(t Tokens, now time.Time) []Effect {
	return m.on(event{kind: Emitted, from: t.From, tokens: t, now: now})
}

// Interrupted reports that an incarnation of a replica no longer has the sequence.
func (m *Machine) Interrupted(from Actor, incarnation uint64, why Refusal, now time.Time) []Effect {
	return m.on(event{kind: Interrupted, from: from, incarnation: incarnation, refusal: why, now: now})
}

// Status reports a replica's answer to a query: whether it knows the sequence, and how many output
// tokens it has computed.
func (m *Machine) Status(from Actor, known bool, output int, now time.Time) []Effect {
	return m.on(event{kind: Status, from: from, known: known, output: output, now: now})
}

// Moved reports that a replica migrated the sequence to another one.
func (m *Machine) Moved(from Actor, to Replica, now time.Time) []Effect {
	return m.on(event{kind: Moved, from: from, to: to, now: now})
}

// Lost reports that an actor stopped, that its node left, or that a message to it was not
// delivered.
func (m *Machine) Lost(who Actor, now time.Time) []Effect {
	return m.on(event{kind: Lost, from: who, now: now})
}

// Timer reports that the timer of an attempt fired.
func (m *Machine) Timer(attempt uint64, now time.Time) []Effect {
	return m.on(event{kind: Timer, attempt: attempt, now: now})
}

// Close ends the session when the client left or has all its output. An actor that finds the client
// gone calls it instead of Start, and before Stop: the message that closes a session is lost if the
// actor crashes on it.
func (m *Machine) Close(now time.Time) []Effect { return m.on(event{kind: Close, now: now}) }

// Stop releases what the actor holds before it stops or restarts.
func (m *Machine) Stop(now time.Time) []Effect { return m.on(event{kind: Stop, now: now}) }

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }
