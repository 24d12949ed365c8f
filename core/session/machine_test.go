package session

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{}
		w.begin(t, epoch)
		actions := map[string]func(*rapid.T){
			"routed": w.routed,
			"route refused": func(*rapid.T) {
				why, had := w.refusal(), w.ended
				w.do(Tokens{}, func() []Effect { return w.m.RouteRefused(why, w.now) })
				if w.ended && !had && why.Reason == Preempted && !w.place.IsZero() && !w.expired() {
					t.Fatal("place: a session with a place was refused because its model is preempted")
				}
			},
			"queued": func(*rapid.T) { w.do(Tokens{}, func() []Effect { return w.m.Queued(w.now) }) },
			"accepted": func(*rapid.T) {
				from, life := w.actor(), w.life()
				digest := rapid.SampledFrom([]string{"r-1", "r-2"}).Draw(w.T, "digest")
				w.answer(from, func() []Effect { return w.m.Accepted(from, life, digest, w.now) })
			},
			"submit refused": func(*rapid.T) {
				from, why := w.actor(), w.refusal()
				if why.Reason == Faulty && w.isAssigned(from) {
					w.avoid()
				}
				w.answer(from, func() []Effect { return w.m.SubmitRefused(from, why, w.now) })
			},
			"emitted":       w.emitted,
			"emitted again": w.emitted,
			"emitted more":  w.emitted,
			"interrupted":   w.interrupted,
			"status": func(*rapid.T) {
				known, output := rapid.Bool().Draw(w.T, "known"), rapid.IntRange(0, 4).Draw(w.T, "output")
				from := w.actor()
				w.answer(from, func() []Effect { return w.m.Status(from, known, output, w.now) })
			},
			"moved": func(*rapid.T) {
				from, to, had := w.actor(), w.replica(), w.m.attempt
				if w.do(Tokens{}, func() []Effect { return w.m.Moved(from, to, w.now) }); w.m.attempt != had {
					w.heard, w.answered = w.now, w.now
				}
			},
			"lost":  w.lose,
			"timer": w.fire,
			"timers": func(*rapid.T) {
				for range rapid.IntRange(2, 4).Draw(w.T, "timers") {
					w.fire(nil)
				}
			},
			"silence": func(*rapid.T) { // of one replica, which the router returns again and again
				to := w.replica()
				for range rapid.IntRange(10, 60).Draw(w.T, "timers") {
					if w.routeTo(to); !w.ended {
						w.fire(nil)
					}
				}
			},
			"crash loop": func(*rapid.T) {
				for range rapid.IntRange(1, 10).Draw(w.T, "crashes") {
					w.routed(nil)
					w.interrupted(nil)
				}
			},
			"late": func(*rapid.T) {
				before := w.m.attempt
				effects := w.m.Timer(before-1, w.now)
				if _, ok := effects[0].(Ignored); !ok {
					t.Fatalf("stale: a timer of an earlier attempt had effects %v", effects)
				}
			},
			"close": func(*rapid.T) {
				if rapid.IntRange(0, 9).Draw(w.T, "really") > 0 {
					return
				}
				w.do(Tokens{}, func() []Effect { return w.m.Close(w.now) })
			},
			"another": func(*rapid.T) { // session, after the end of this one
				if w.ended {
					w.stop()
					w.begin(w.T, w.now)
				}
			},
			"": func(*rapid.T) { w.checkState() },
		}
		for range 6 { // one Repeat is too short for rare sequences of events
			t.Repeat(actions)
		}
		w.stop()
	})
}

func (w *world) routed(*rapid.T) {
	to := w.replica()
	w.routeTo(to)
}

// routeTo lets the router return a replica.
func (w *world) routeTo(to Replica) {
	was, silent := w.m.State(), w.m.abandoned.Name
	w.do(Tokens{}, func() []Effect { return w.m.Routed(to, w.now) })
	if slices.Contains(unassigned, was) {
		w.heard = w.now
		if to.Name != silent {
			w.answered = w.now
		}
	}
}

func (w *world) emitted(*rapid.T) {
	tokens := Tokens{
		From: w.actor(), First: max(0, w.delivered+rapid.IntRange(-3, 2).Draw(w.T, "first")),
		Count: rapid.IntRange(0, 4).Draw(w.T, "count"), Finished: rapid.IntRange(0, 9).Draw(w.T, "last") == 0,
		Revision: w.files(),
	}
	was, had, foreign := w.m.State(), w.delivered, w.foreign(tokens)
	effects := w.do(tokens, func() []Effect { return w.m.Emitted(tokens, w.now) })
	if !foreign {
		w.hearIn(was, live...)
	}
	if w.delivered == had {
		return
	}
	if w.failures, w.faults, w.lost = 0, 0, nil; len(effects) == 0 {
		w.Fatal("once: new tokens had no effect")
	}
}

func (w *world) interrupted(*rapid.T) {
	from, life, why := w.actor(), w.life(), w.refusal()
	stale := !slices.Contains(assigned, w.m.State()) || life < w.m.replica.Incarnation ||
		from != Actor{} && from != w.m.replica.Actor
	if why.Reason == Faulty && !stale {
		w.faults++
		w.avoid()
	}
	w.do(Tokens{}, func() []Effect { return w.m.Interrupted(from, life, why, w.now) })
	if stale || why.Reason == Preempted {
		return
	}
	if w.faults >= maxFaults && !w.ended {
		w.Fatalf("bounded: alive after %d faulty replicas without a new token", w.faults)
	}
	if w.failures++; w.failures > maxInterruptions && !w.ended {
		w.Fatalf("bounded: alive after %d interruptions without a new token", w.failures)
	}
}

func (w *world) lose(*rapid.T) {
	who := w.actor()
	if w.isAssigned(who) {
		w.avoid()
	}
	w.do(Tokens{}, func() []Effect { return w.m.Lost(who, w.now) })
}

// fire lets the timer fire, sometimes late.
func (w *world) fire(*rapid.T) {
	if w.timer == nil {
		return
	}
	late := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 5000}).Draw(w.T, "late")) * time.Millisecond
	if at := w.due.Add(late); at.After(w.now) {
		w.now = at
	}
	silence, was, timer := w.due.Sub(w.heard), w.m.State(), w.timer
	w.timer = nil
	if slices.Contains(assigned, was) && silence >= silenceTimeout && w.due.Sub(w.answered) >= answerTimeout {
		w.avoid()
	}
	before := w.due
	effects := w.do(Tokens{}, func() []Effect { return w.m.Timer(timer.Attempt, w.now) })
	if w.expired() && !w.ended {
		w.Fatal("deadline: the timer fired after the deadline and the session goes on")
	}
	if slices.Contains(assigned, was) && !w.ended {
		w.checkSilence(silence, effects)
		if w.m.State() != Routing {
			w.answered = w.answered.Add(w.now.Sub(before)) // a stall does not count
		}
	}
}
