package switching

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var leases = []string{"a-0", "b-0", "c-0", "d-0"}

// TestInvariants checks the invariants of doc.go with random events, most of them in an order that
// no device would report.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{m: New(), now: time.Unix(0, 0)}
		t.Repeat(map[string]func(*rapid.T){
			"begin":     w.begin,
			"drained":   func(t *rapid.T) { w.report(t, "drained", w.m.Drained) },
			"freed":     func(t *rapid.T) { w.report(t, "freed", w.m.Freed) },
			"freed too": func(t *rapid.T) { w.report(t, "freed", w.m.Freed) },
			"suspended": func(t *rapid.T) { w.report(t, "suspended", w.m.Suspended) },
			"activated": w.activated,
			"overruled": w.overruled,
			"loaded":    func(t *rapid.T) { w.report(t, "loaded", w.loaded) },
			"serves":    func(t *rapid.T) { w.report(t, "serves", w.serves) },
			"failed":    func(t *rapid.T) { w.report(t, "failed", w.failed) },
			"deadline":  w.deadline,
		})
	})
}

// world follows one device, and checks the invariants.
type world struct {
	m      *Machine
	now    time.Time
	begun  *Request // in progress
	at     time.Time
	last   Phase
	number uint64
	seen   map[string]bool // "freed a-0": reported since the switch began
}

func (w *world) advance(t *rapid.T) time.Time {
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "ms")) * time.Millisecond)
	return w.now
}

func (w *world) begin(t *rapid.T) {
	all := rapid.Permutation(leases).Draw(t, "leases")
	r := Request{ID: fmt.Sprint("s", rapid.IntRange(0, 3).Draw(t, "id")), To: all[0],
		Leave: all[1 : 1+rapid.IntRange(0, 3).Draw(t, "leave")], Timeout: time.Minute}
	now, was := w.advance(t), w.begun
	effects := w.m.Begin(now, r)
	if was == nil {
		w.begun, w.at, w.last, w.seen = &r, now, Serving, make(map[string]bool)
		w.number++
	}
	w.follow(t, effects)
	if was != nil && w.m.Status().ID != was.ID {
		t.Fatalf("one: %s began during %s", r.ID, was.ID)
	}
}

// loaded and serves report loads and captures from the time of the switch and before; these have bytes and
// graphs.
func (w *world) loaded(now time.Time, lease string) []Effect {
	return w.m.Loaded(now, lease, Load{At: w.past(now), Bytes: 1, Source: "disk"})
}

func (w *world) serves(now time.Time, lease string) []Effect {
	return w.m.Serves(now, lease, Start{At: w.past(now), Graphs: 1})
}

// past returns now, or a time before the switch if the time in milliseconds is odd.
func (w *world) past(now time.Time) time.Time {
	if now.UnixMilli()%2 == 1 {
		return w.at.Add(-1)
	}
	return now
}

func (w *world) failed(now time.Time, lease string) []Effect { return w.m.Failed(now, lease, "no") }

func (w *world) report(t *rapid.T, what string, send func(time.Time, string) []Effect) {
	lease := rapid.SampledFrom(leases).Draw(t, "lease")
	if w.begun != nil {
		w.seen[what+" "+lease] = true
	}
	w.follow(t, send(w.advance(t), lease))
}

func (w *world) activated(t *rapid.T) {
	lease, was := rapid.SampledFrom(leases).Draw(t, "lease"), w.begun
	fails := was != nil && slices.Contains(was.Leave, lease) && w.seen["suspended "+lease]
	effects := w.m.Activated(w.advance(t), lease)
	w.follow(t, effects)
	if slices.ContainsFunc(effects, isConflict) != fails || fails && w.begun != nil {
		t.Fatalf("activated: %v after %s of %+v", effects, lease, was)
	}
}

func (w *world) overruled(t *rapid.T) {
	lease, was := rapid.SampledFrom(leases).Draw(t, "lease"), w.begun
	id := fmt.Sprint("s", rapid.IntRange(0, 3).Draw(t, "id"))
	fails := was != nil && was.ID == id && (slices.Contains(was.Leave, lease) || lease == was.To)
	effects := w.m.Overruled(w.advance(t), id, lease)
	w.follow(t, effects)
	if slices.ContainsFunc(effects, isConflict) != fails || fails && w.begun != nil {
		t.Fatalf("activated: %v after %s of %+v was overruled", effects, lease, was)
	}
}

func isConflict(e Effect) bool { ended, is := e.(Ended); return is && ended.Conflict }

func (w *world) deadline(t *rapid.T) {
	number := w.number - uint64(rapid.IntRange(0, 1).Draw(t, "earlier"))
	w.follow(t, w.m.Deadline(w.advance(t), number))
}

func (w *world) follow(t *rapid.T, effects []Effect) {
	before := w.begun
	for n, e := range effects {
		switch e := e.(type) {
		case Ignored:
			if len(effects) != 1 {
				t.Fatalf("ignored: %v", effects)
			}
		case Entered:
			if e.Phase != Serving && e.Phase < w.last {
				t.Fatalf("forward: %s after %s", e.Phase, w.last)
			}
			w.last = e.Phase
		case BringBack:
			if w.begun == nil || !slices.Equal(e.Leases, w.begun.Leave) {
				t.Fatalf("brought back: %v, want those of %+v", e.Leases, w.begun)
			}
		case Ended:
			w.ended(t, e, n > 0 && isBringBack(effects[n-1]))
		}
	}
	if in := w.m.Status().Phase != Serving; in != (w.begun != nil) {
		t.Fatalf("once: in progress %v after %v, began %+v", in, effects, before)
	}
}

func isBringBack(e Effect) bool { _, ok := e.(BringBack); return ok }

func (w *world) ended(t *rapid.T, e Ended, back bool) {
	if w.begun == nil || e.ID != w.begun.ID {
		t.Fatalf("once: %s ended, in progress is %+v", e.ID, w.begun)
	}
	if total := e.Metrics.Total(); total != w.now.Sub(w.at) {
		t.Fatalf("whole time: %s, took %s", total, w.now.Sub(w.at))
	}
	for _, at := range []time.Time{e.Metrics.Weights.At, e.Metrics.Engine.At} {
		if !at.IsZero() && !at.After(w.at) {
			t.Fatalf("own cost: %+v of a switch that began at %s", e.Metrics, w.at)
		}
	}
	if back != (e.Failure != "") {
		t.Fatalf("brought back: %v with failure %q", back, e.Failure)
	}
	if e.Failure == "" {
		for _, lease := range w.begun.Leave {
			if !w.seen["freed "+lease] {
				t.Fatalf("complete: %s has not freed its memory", lease)
			}
		}
		if !w.seen["loaded "+e.To] || !w.seen["serves "+e.To] {
			t.Fatalf("complete: %s does not serve: %v", e.To, w.seen)
		}
	}
	w.begun = nil
}
