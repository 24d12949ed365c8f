package session

import (
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// world is a client, a router and replicas, which do anything at any time. It checks the invariants
// of doc.go by name.
type world struct {
	*rapid.T
	m        *Machine
	now      time.Time
	deadline time.Time

	delivered int       // tokens that the client has received
	kept      string    // revision that the actor keeps
	computed  uint64    // fingerprint of the files that computed the output; 0: unknown
	place     time.Time // that the actor keeps; zero: none
	begun     bool      // that the actor keeps
	outcomes  int
	ended     bool
	watched   []Actor
	timer     *SetTimer // nil: none
	due       time.Time // of timer
	heard     time.Time
	answered  time.Time // when a replica answered, or another one than the silent one was assigned
	lost      []string  // replicas since the last new token
	faults    int       // of these
	failures  int       // interruptions since the last new token
}

// begin starts a session.
func (w *world) begin(t *rapid.T, now time.Time) {
	*w = world{T: t, now: now, kept: rapid.SampledFrom([]string{"", "r-0"}).Draw(t, "revision")}
	if rapid.Bool().Draw(t, "has deadline") {
		w.deadline = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "deadline")) * time.Millisecond)
	}
	if rapid.Bool().Draw(t, "placed") {
		w.place, w.begun = now.Add(-time.Second), rapid.Bool().Draw(t, "begun")
	}
	w.m = New(Config{
		Adapter: rapid.Bool().Draw(t, "adapter"), Deadline: w.deadline, Placed: w.place, Begun: w.begun,
	})
	if w.delivered = rapid.IntRange(0, 2).Draw(t, "output"); w.delivered > 0 {
		w.computed = Fingerprint(w.kept)
	}
	w.do(Tokens{}, func() []Effect { return w.m.Start(w.delivered, w.kept, w.now) })
}

func (w *world) stop() {
	w.do(Tokens{}, func() []Effect { return w.m.Stop(w.now) })
	if len(w.watched) > 0 || w.timer != nil {
		w.Fatalf("released: watched %v, timer %v", w.watched, w.timer)
	}
}

// do carries out one event and checks its effects.
func (w *world) do(tokens Tokens, event func() []Effect) []Effect {
	if w.m.State() != Created {
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 120).Draw(w.T, "ms")) * time.Millisecond)
	}
	before, hadEnded := *w.m, w.ended
	effects := event()
	for _, e := range effects {
		w.carryOut(e, tokens)
		switch e.(type) {
		case Ignored:
			if !reflect.DeepEqual(before, *w.m) || len(effects) != 1 {
				w.Fatalf("ignored: %v and changed", effects)
			}
		case Unwatch, StopTimer:
		default:
			if hadEnded {
				w.Fatalf("ended: %v after the end", e)
			}
		}
	}
	w.checkCancelled(effects)
	return effects
}

// carryOut carries out one effect.
func (w *world) carryOut(e Effect, tokens Tokens) {
	switch e := e.(type) {
	case Deliver:
		last := tokens.First + tokens.Count
		if start := tokens.First + e.Skip; e.Skip < 0 || e.Skip > tokens.Count || start != min(w.delivered, last) {
			w.Fatalf("once: the client has %d tokens and gets those from %d on", w.delivered, start)
		}
		if tokens.Revision != 0 && last > w.delivered {
			w.checkFiles(tokens.Revision)
		}
		w.delivered = max(w.delivered, last)
		if tokens.Finished {
			w.outcomes++
		}
	case Relay, Fail:
		w.outcomes++
	case End:
		w.ended = true
	case Watch:
		if !slices.Contains(w.watched, e.Replica) {
			w.watched = append(w.watched, e.Replica)
		}
	case Unwatch:
		w.watched = slices.DeleteFunc(w.watched, func(a Actor) bool { return a == e.Replica })
	case SetTimer:
		w.timer, w.due = &e, w.now.Add(e.After)
		if w.m.State() == Delayed && w.expired() {
			w.Fatal("deadline: the session waits for another try after its deadline")
		}
	case StopTimer:
		w.timer = nil
	case KeepRevision:
		if w.delivered > 0 && w.kept != "" {
			w.Fatal("revision: it changed though there is output")
		}
		w.kept = e.Digest
	case KeepPlace:
		if !w.place.IsZero() {
			w.Fatal("place: it changed")
		}
		w.place = e.At
	case KeepBegun:
		if w.begun {
			w.Fatal("begun: it is kept again")
		}
		w.begun = true
	case Submit:
		w.checkRevision(e.Revision)
		if !w.begun {
			w.Fatal("begun: the actor does not know that a replica was found")
		}
		if e.Waited != w.now.Sub(w.place) {
			w.Fatalf("place: waited %s since %s", e.Waited, w.place)
		}
	case AskRoute:
		w.checkRevision(e.Revision)
		if e.Begun != (w.begun || w.delivered > 0) {
			w.Fatalf("begun: asked with %v, and %v is kept", e.Begun, w.begun)
		}
		if !slices.Equal(e.Avoid, w.lost) {
			w.Fatalf("avoided: %v, lost since the last token: %v", e.Avoid, w.lost)
		}
	case Abandon:
		if e.Replica.Name == e.Instead {
			w.Fatalf("loyal: %s was abandoned for itself", e.Instead)
		}
	}
}

func (w *world) expired() bool { return !w.deadline.IsZero() && !w.now.Before(w.deadline) }

func (w *world) checkRevision(got string) {
	want := w.kept
	if w.delivered == 0 {
		want = ""
	}
	if got != want {
		w.Fatalf("revision: asked for %q, want %q", got, want)
	}
}

// checkFiles checks that new tokens were computed by the same files as the output, and that the actor keeps the
// digest of the files that computed the first ones.
func (w *world) checkFiles(revision uint64) {
	if w.computed == 0 && w.delivered == 0 {
		w.computed = revision
	}
	if w.computed != 0 && w.computed != revision || w.delivered == 0 && Fingerprint(w.kept) != revision {
		w.Fatalf("revision: tokens of files %x after tokens of %x; %q is kept", revision, w.computed, w.kept)
	}
}

// foreign reports whether tokens must not be delivered: the output was computed by other files, or the actor does
// not know the digest of the files of the first ones.
func (w *world) foreign(t Tokens) bool {
	if w.kept == "" {
		return t.Revision != 0 && w.delivered == 0
	}
	return t.Revision != 0 && t.Revision != Fingerprint(w.kept)
}

// files returns the fingerprint of the files of a replica, which are those of the output more often than others.
func (w *world) files() uint64 {
	digest := rapid.SampledFrom([]string{"", w.kept, w.kept, "r-1", "r-2"}).Draw(w.T, "files")
	return Fingerprint(digest)
}

// checkCancelled checks that a session cancels no sequence at its own replica unless it ends.
func (w *world) checkCancelled(effects []Effect) {
	for _, e := range effects {
		if c, ok := e.(Cancel); ok && c.At == w.m.replica.Actor && !w.ended {
			w.Fatalf("loyal: cancelled at the assigned replica %s: %s", c.At.ID, c.Why)
		}
	}
}

// checkState checks the invariants that hold between events.
func (w *world) checkState() {
	state := w.m.State()
	if w.ended != (state == Ended) || w.outcomes > 1 || w.outcomes == 1 && !w.ended {
		w.Fatalf("outcome: %d outcomes, %s", w.outcomes, state)
	}
	if w.m.seen != w.delivered {
		w.Fatalf("once: the machine counts %d tokens, the client %d", w.m.seen, w.delivered)
	}
	if w.ended {
		return
	}
	want := 0
	if slices.Contains(assigned, state) {
		want = 1
	}
	if n := len(w.watched); n != want || n == 1 && w.watched[0] != w.m.replica.Actor {
		w.Fatalf("assigned: %s, watched %v", state, w.watched)
	}
	if w.m.other != (Actor{}) && w.m.other == w.m.replica.Actor {
		w.Fatal("loyal: the assigned replica counts as another sender")
	}
	if w.timer == nil || w.timer.Attempt != w.m.attempt || w.timer.After <= 0 {
		w.Fatalf("timer: %s with %v in attempt %d", state, w.timer, w.m.attempt)
	}
}

// hearIn records that the replica was heard from, if the machine was in one of these states.
func (w *world) hearIn(was State, states ...State) {
	if slices.Contains(states, was) {
		w.heard, w.answered = w.now, w.now
	}
}

// answer carries out an answer of an actor to the session, and checks that it changes nothing unless the
// actor is the assigned replica.
func (w *world) answer(from Actor, event func() []Effect) {
	was, own := w.m.State(), w.isAssigned(from)
	effects := w.do(Tokens{}, event)
	if own {
		w.hearIn(was, Submitted, Serving)
	} else if _, ignored := effects[0].(Ignored); !ignored {
		w.Fatalf("stale: an answer of %v had effects %v in %s", from, effects, was)
	}
}

// avoid records that the assigned replica is to be avoided.
func (w *world) avoid() {
	if name := w.m.replica.Name; !slices.Contains(w.lost, name) {
		w.lost = append(w.lost, name)
	}
}

// isAssigned reports whether an actor is the assigned replica.
func (w *world) isAssigned(a Actor) bool {
	return slices.Contains(assigned, w.m.State()) && (a == Actor{} || a == w.m.replica.Actor)
}

func (w *world) name() string {
	return rapid.SampledFrom([]string{"m-0", "m-1", "m-2"}).Draw(w.T, "replica")
}

func (w *world) replica() Replica {
	name := w.name()
	return Replica{name, Actor{"n", name}, w.life()}
}

// actor returns the assigned replica's actor more often than others.
func (w *world) actor() Actor {
	switch rapid.IntRange(0, 5).Draw(w.T, "sender") {
	case 0:
		return Actor{}
	case 1, 2, 3:
		return w.m.replica.Actor
	}
	return Actor{"n", w.name()}
}

func (w *world) life() uint64 { return rapid.Uint64Range(1, 3).Draw(w.T, "life") }

// refusal returns one with NotReady more often than others, which may end the session.
func (w *world) refusal() Refusal {
	after := rapid.IntRange(0, 100).Draw(w.T, "after")
	r := Refusal{Reason: NotReady, RetryAfter: time.Duration(after) * time.Millisecond}
	if rapid.IntRange(0, 9).Draw(w.T, "rare") == 0 {
		r.Reason = rapid.SampledFrom([]Reason{Draining, Faulty, Faulty, WeightsDiffer, Other, Numeric, Preempted}).
			Draw(w.T, "why")
	}
	return r
}

// checkSilence checks what a silent replica's session did when its timer fired.
func (w *world) checkSilence(silence time.Duration, effects []Effect) {
	var asked, queried bool
	for _, e := range effects {
		switch e.(type) {
		case AskRoute:
			asked = true
		case Query:
			queried = true
		}
	}
	if asked != (silence >= 1200*time.Millisecond) || queried != (!asked && silence >= 400*time.Millisecond) {
		w.Fatalf("silence: after %s: abandoned %v, queried %v", silence, asked, queried)
	}
	if !asked { // a stall does not count as silence
		w.heard = w.now.Add(-silence)
	}
}
