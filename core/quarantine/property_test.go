package quarantine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/health"
)

// world is a device, its operators and its actor, which behave arbitrarily. It checks the
// invariants of doc.go by name.
type world struct {
	*rapid.T
	m       *Machine
	now     time.Time
	inUse   bool
	running bool            // a self-test is running
	started int             // value of begins when the self-test started
	begins  int             // number of quarantines that began
	wait    map[string]bool // requests without an answer
	next    int             // number of the next request
	looks   int             // number of requested observations without an answer
	due     time.Time       // earliest time of the next self-test without a request; zero: at any time
	since   time.Time       // start of the last self-test
	failed  bool            // the self-test that just ended failed
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, m: New(), now: time.Unix(1e9, 0), wait: make(map[string]bool)}
		w.do(event{}, func() []Effect { return w.m.Start(true) })
		actions := map[string]func(*rapid.T){
			"":         func(*rapid.T) { w.check() },
			"observed": func(*rapid.T) { w.observe() },
			"look":     func(*rapid.T) { w.observe() },
			"not observed": func(*rapid.T) {
				if w.looks--; w.looks < 0 {
					w.looks = 0
					return
				}
				w.do(event{}, w.m.NotObserved)
			},
			"use": func(t *rapid.T) { w.inUse = rapid.Bool().Draw(t, "in use") },
			"device lost": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rare") == 0 {
					w.do(event{kind: Fault, cause: health.Lost},
						func() []Effect { return w.m.DeviceLost("fault", w.now) })
				}
			},
			"quarantine": func(t *rapid.T) {
				r := w.request()
				w.do(event{kind: Fault, cause: health.Operator},
					func() []Effect { return w.m.Quarantine(r, "x", w.now) })
			},
			"release": func(t *rapid.T) {
				r, untested := w.request(), rapid.IntRange(0, 3).Draw(t, "untested") == 0
				e := event{kind: Release, request: r, untested: untested}
				w.do(e, func() []Effect { return w.m.Release(r, untested, !w.inUse, w.now) })
				if untested && w.m.State() != Healthy {
					t.Fatal("answered: an untested release did not end the quarantine")
				}
			},
			"repeat": func(t *rapid.T) {
				if len(w.wait) > 0 {
					r := Request{ID: rapid.SampledFrom(slices.Sorted(maps.Keys(w.wait))).Draw(t, "request")}
					w.do(event{kind: Release}, func() []Effect { return w.m.Release(r, false, !w.inUse, w.now) })
				}
			},
			"suspect": func(*rapid.T) {
				w.do(event{kind: Suspicious}, func() []Effect { return w.m.Suspect("a step hung", w.now) })
			},
			"tested": func(t *rapid.T) { w.tested() },
			"ended":  func(t *rapid.T) { w.tested() },
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rare") > 0 {
					return
				}
				q, ok := w.m.Current()
				o, at, seen := w.m.Observation()
				clear(w.wait)
				w.running, w.looks, w.due = false, 0, time.Time{}
				w.do(event{}, func() []Effect { return w.m.Start(true) })
				if q2, ok2 := w.m.Current(); q2 != q || ok2 != ok {
					t.Fatalf("survives: %+v became %+v", q, q2)
				}
				if o2, at2, seen2 := w.m.Observation(); fmt.Sprint(o2, at2, seen2) != fmt.Sprint(o, at, seen) {
					t.Fatal("survives: the observation changed")
				}
			},
		}
		for range 4 {
			t.Repeat(actions)
		}
	})
}

// request returns a new request and expects an answer to it.
func (w *world) request() Request {
	w.next++
	r := Request{ID: fmt.Sprint(w.next)}
	w.wait[r.ID] = true
	return r
}

func (w *world) observe() {
	if w.looks == 0 {
		return
	}
	w.looks--
	o := health.Observation{
		Lost:          rapid.SampledFrom([]string{"", "", "", "gone"}).Draw(w.T, "lost"),
		Uncorrectable: health.Known(rapid.Uint64Range(0, 2).Draw(w.T, "errors")),
	}
	if rapid.IntRange(0, 4).Draw(w.T, "has xid") == 0 {
		o.XIDs = []uint64{rapid.SampledFrom([]uint64{31, 79}).Draw(w.T, "xid")}
	}
	previous := w.m.last
	fault, _ := health.Judge(previous, o)
	effects := w.do(event{kind: Observed, cause: fault.Cause},
		func() []Effect { return w.m.Observed(o, !w.inUse, w.now) })
	unloads, tests := 0, 0
	for _, e := range effects {
		switch e.(type) {
		case UnloadAll:
			unloads++
		case RunTest:
			tests++
		}
	}
	if want := w.m.State() == Lost && w.inUse; (unloads == 1) != want || unloads > 1 {
		w.Fatalf("emptied: %v, in use: %v, but unloaded %d times", w.m.State(), w.inUse, unloads)
	}
	if tests == 1 && o.Lost != "" && len(w.wait) == 0 && w.m.State() == Lost {
		w.Fatal("patient: a self-test of a device that does not respond")
	}
	if due := w.m.State() == Lost && !w.inUse && (len(w.wait) > 0 || o.Lost == "" && !w.now.Before(w.due)); due &&
		!w.running {
		w.Fatal("waiting: no self-test runs, though one is due")
	}
}

func (w *world) tested() {
	if !w.running {
		return
	}
	w.running = false
	fault := rapid.SampledFrom([]string{"", "broken"}).Draw(w.T, "fault")
	was := w.m.State()
	e := event{kind: Passed}
	if w.failed = fault != ""; w.failed {
		e.kind = Failed
	}
	w.do(e, func() []Effect { return w.m.Tested(fault, w.now) })
	passed := was != Healthy && w.m.State() == Healthy
	if passed && (fault != "" || w.started != w.begins) {
		w.Fatalf("newer: a self-test of quarantine %d with result %q ended quarantine %d", w.started, fault, w.begins)
	}
	if was != Healthy && !passed && fault == "" && w.started == w.begins {
		w.Fatal("newer: a passed self-test did not end its quarantine")
	}
	if len(w.wait) > 0 {
		w.Fatalf("answered: requests %v wait after the self-test", w.wait)
	}
}

// do carries out one event and checks its effects.
func (w *world) do(e event, events func() []Effect) []Effect {
	w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 10, 31}).Draw(w.T, "s")) * time.Second)
	state := w.m.State()
	was, _ := w.m.Current()
	effects := events()
	for _, effect := range effects {
		switch effect := effect.(type) {
		case Began:
			w.begins++
			if effect.Cause == health.Hung && !w.failed && (!w.running || w.now.Sub(w.since) < 20*time.Second) {
				w.Fatal("suspected: quarantined without a failed or hung self-test")
			}
			if state != Healthy && (was.Cause == health.Lost || effect.Cause != health.Lost) {
				w.Fatalf("first cause: %v replaced %v", effect, was)
			}
			state, was, w.due = w.m.State(), Quarantine{Cause: effect.Cause}, w.now.Add(30*time.Second)
		case Ended:
			if state == Healthy {
				w.Fatal("announced: an end without a begin")
			}
			state = Healthy
		case RunTest:
			w.checkTest(e)
		case AnswerQuarantine:
			w.answered(effect.To)
		case AnswerRelease:
			w.answered(effect.To)
			if w.m.State() != Healthy {
				w.Fatal("answered: released, but still quarantined")
			}
		case RefuseRelease:
			w.answered(effect.To)
			if w.m.State() == Healthy || effect.Why == "" {
				w.Fatalf("answered: %+v refused in state %v", effect, w.m.State())
			}
		case Observe:
			if w.looks++; w.looks > 1 {
				w.Fatal("observed: two observations at a time")
			}
		case Ignored:
			w.Fatalf("unexpected: %+v", effect)
		}
	}
	if state != w.m.State() {
		w.Fatalf("announced: the state is %v, reported was %v", w.m.State(), state)
	}
	return effects
}

func (w *world) checkTest(e event) {
	if w.running {
		w.Fatal("one test: a second self-test starts")
	}
	if w.m.State() == Lost && w.inUse {
		w.Fatal("empty: a self-test of a lost device in use")
	}
	q, _ := w.m.Current()
	suspected := w.m.suspicion == Suspected && w.m.State() == Healthy
	repeats := (w.m.State() == Lost || q.Cause == health.Hung) && !w.now.Before(w.due)
	if e.kind != Release && len(w.wait) == 0 && !suspected && !repeats {
		w.Fatalf("patient: a self-test without a request in state %v, due in %v", w.m.State(), w.due.Sub(w.now))
	}
	w.running, w.started, w.due, w.since = true, w.begins, w.now.Add(30*time.Second), w.now
}

func (w *world) answered(r Request) {
	if !w.wait[r.ID] {
		w.Fatalf("answered: %s twice, or without a request", r.ID)
	}
	delete(w.wait, r.ID)
}

// check checks the invariants that hold between events.
func (w *world) check() {
	q, ok := w.m.Current()
	if ok != (w.m.State() != Healthy) || ok && (q.Cause == health.None || q.Detail == "" || q.Since.IsZero()) {
		w.Fatalf("explained: %v with %+v", w.m.State(), q)
	}
	if ok && (q.Cause == health.Lost) != (w.m.State() == Lost) {
		w.Fatalf("explained: %v because of %v", w.m.State(), q.Cause)
	}
	if len(w.wait) > 0 && !w.running && w.m.State() != Lost {
		w.Fatalf("waiting: %v wait in state %v and no self-test runs", w.wait, w.m.State())
	}
	if len(w.wait) != len(w.m.waiting) {
		w.Fatalf("answered: the machine knows %v of %v", w.m.waiting, w.wait)
	}
	if w.looks != 1 {
		w.Fatalf("observed: %d observations are requested", w.looks)
	}
	if len(w.m.Notes()) > 16 {
		w.Fatalf("%d notes are kept", len(w.m.Notes()))
	}
}
