package utilization

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	start = time.Unix(1_700_000_000, 0)
	peaks = Peaks{FLOPs: 1e9, Bytes: 1e8, Source: "test"}
)

// near reports whether two sums of the same numbers in another order are equal.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// world has replicas that report to a window, and what they have run.
type world struct {
	window  *Window
	now     time.Time
	running map[string]*Counters
	started map[string]uint64
	heard   map[string]time.Time
	pending map[string]Counters // since the last report
	seen    []seen
}

// seen is what one report added.
type seen struct {
	at time.Time
	Counters
}

// TestInvariants checks the invariants of the package's documentation by name.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			window: NewWindow(start), now: start, running: make(map[string]*Counters),
			heard: make(map[string]time.Time), pending: make(map[string]Counters), started: make(map[string]uint64),
		}
		for range rapid.IntRange(1, 100).Draw(t, "events") {
			w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(9*time.Second)).Draw(t, "passes")))
			name := rapid.SampledFrom([]string{"a-0", "b-0"}).Draw(t, "replica")
			switch rapid.SampledFrom([]string{"step", "step", "report", "restart"}).Draw(t, "event") {
			case "step":
				w.step(t, name)
			case "report":
				w.report(name)
			case "restart": // what was not reported is lost
				if w.running[name] != nil {
					w.running[name], w.pending[name] = &Counters{}, Counters{}
					w.started[name]++
				}
			}
		}
		w.check(t)
	})
}

func (w *world) step(t *rapid.T, name string) {
	if w.running[name] == nil {
		w.report(name)
	}
	took := time.Duration(rapid.Int64Range(1, int64(3*time.Second)).Draw(t, "took"))
	var work Work
	if rapid.IntRange(0, 20).Draw(t, "counted") > 0 {
		work.FLOPs = float64(rapid.Int64Range(1, 1e9).Draw(t, "flops"))
		work.Bytes = float64(rapid.Int64Range(1, 1e8).Draw(t, "bytes"))
	}
	least, _ := peaks.Least(work)
	w.running[name].Step(took, work, least)
	p := w.pending[name]
	p.Step(took, work, least)
	w.pending[name] = p
}

func (w *world) report(name string) {
	last, known := w.heard[name]
	if w.running[name] == nil {
		w.running[name] = &Counters{}
	}
	w.window.Report(name, w.started[name], *w.running[name], w.now)
	if known && w.now.Sub(last) <= Length {
		w.seen = append(w.seen, seen{w.now, w.pending[name]})
	}
	w.heard[name], w.pending[name] = w.now, Counters{}
}

func (w *world) check(t *rapid.T) {
	var want Counters
	for _, s := range w.seen {
		if slotNumber(s.at) >= slotNumber(w.now)-Slots {
			want.merge(s.Counters)
		}
	}
	f := w.window.Figures(w.now)
	if f.Steps != want.Steps || f.Counted != want.Counted || f.Least != want.Least || !near(f.FLOPs, want.FLOPs) ||
		!near(f.Bytes, want.Bytes) {
		t.Fatalf("counted: %+v, want %+v", f.Counters, want)
	}
	busy, observed := f.TimeShare()
	reached, counted := f.RooflineShare(peaks)
	used, known := f.Utilization(peaks)
	if busy < 0 || busy > 1 || reached < 0 || reached > 1 || used < 0 || used > busy {
		t.Fatalf("bounded: shares of %v and %v, utilization %v", busy, reached, used)
	}
	if known && counted && used != busy*reached {
		t.Fatalf("product: %v times %v is not %v", busy, reached, used)
	}
	if _, without := f.Utilization(Peaks{}); without || known != (observed && f.Counted == f.Steps) {
		t.Fatalf("unknown: known without peaks: %v, with peaks: %v, for %+v", without, known, f)
	}
	if later := w.window.Figures(w.now.Add(Length + SlotLength)); later.Counters != (Counters{}) {
		t.Fatalf("forgotten: %+v", later.Counters)
	}
}

// TestFirstReport checks that a replica's first report, and one after a long silence, only sets where to count from.
func TestFirstReport(t *testing.T) {
	w, ran := NewWindow(start), Counters{Steps: time.Minute}
	w.Report("a-0", 1, ran, start.Add(time.Second))
	if f := w.Figures(start.Add(2 * time.Second)); f.Steps != 0 {
		t.Errorf("the first report counts %v", f.Steps)
	}
	ran.Steps += time.Second
	w.Report("a-0", 1, ran, start.Add(2*time.Second))
	if f := w.Figures(start.Add(2 * time.Second)); f.Steps != time.Second {
		t.Errorf("the second report counts %v, want 1s", f.Steps)
	}
	ran.Steps += time.Second
	later := start.Add(2 * Length)
	w.Report("a-0", 1, ran, later)
	if f := w.Figures(later); f.Steps != 0 {
		t.Errorf("a report after %v counts %v", Length, f.Steps)
	}
	w.Report("b-0", 1, Counters{}, later.Add(Length+SlotLength))
	if len(w.replicas) != 1 {
		t.Errorf("%d replicas are known, want the one that reports", len(w.replicas))
	}
}

// TestIdle checks that a device without steps is not used, and that one that was not observed is unknown.
func TestIdle(t *testing.T) {
	w := NewWindow(start)
	if _, known := w.Figures(start).Utilization(peaks); known {
		t.Error("known before anything was observed")
	}
	f := w.Figures(start.Add(time.Second))
	used, known := f.Utilization(peaks)
	if _, reached := f.RooflineShare(peaks); used != 0 || !known || reached {
		t.Errorf("an idle device: %v, known: %v, with a roofline share: %v", used, known, reached)
	}
}

// TestLeast checks the least time of steps that are bound by arithmetic and by bandwidth, and their sum.
func TestLeast(t *testing.T) {
	var c Counters
	for _, w := range []Work{{FLOPs: 1e9, Bytes: 1e6}, {FLOPs: 1e6, Bytes: 1e8}} {
		least, known := peaks.Least(w)
		if !known || least != time.Second {
			t.Errorf("%+v takes at least %v, want 1s", w, least)
		}
		c.Step(2*time.Second, w, least)
	}
	f := Figures{Observed: 8 * time.Second, Counters: c}
	used, _ := f.Utilization(peaks)
	if reached, _ := f.RooflineShare(peaks); reached != 0.5 || used != 0.25 {
		t.Errorf("roofline share %v, utilization %v; want 0.5 and 0.25", reached, used)
	}
	faster := Counters{}
	faster.Step(time.Second, Work{FLOPs: 2e9}, 2*time.Second) // than the peaks, which were measured too low
	if reached, _ := (Figures{Observed: time.Second, Counters: faster}).RooflineShare(peaks); reached != 1 {
		t.Errorf("roofline share %v of a step that was faster than the peaks, want 1", reached)
	}
	if FactsOf("NVIDIA H200").Bytes != 4.8e12 || FactsOf("another").Known() {
		t.Error("facts of a known and of an unknown product")
	}
}
