package demand

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1_700_000_000, 0)

// seen is one event of the model that the windows are compared with.
type seen struct {
	at                time.Time
	kind              string
	prompt, output    int
	ttft, decodeTotal time.Duration
}

// TestInvariants checks the invariants of the package's documentation by name.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		windows := []*Window{NewWindow(start), NewWindow(start)}
		single := NewWindow(start)
		var all []seen
		now := start
		for range rapid.IntRange(1, 120).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(8*time.Second)).Draw(t, "passes")))
			e := seen{
				at: now, kind: rapid.SampledFrom([]string{"arrived", "refused", "first", "finished"}).Draw(t, "kind"),
				prompt: rapid.IntRange(1, 1<<17).Draw(t, "prompt"), output: rapid.IntRange(1, 4096).Draw(t, "output"),
				ttft:        time.Duration(rapid.Int64Range(1e5, 1e11).Draw(t, "ttft")),
				decodeTotal: time.Duration(rapid.Int64Range(1e5, 1e11).Draw(t, "decode")),
			}
			all = append(all, e)
			record(windows[rapid.IntRange(0, 1).Draw(t, "window")], e)
			record(single, e)
		}
		now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "later")))
		var merged Figures
		for _, w := range windows {
			merged.Merge(w.Figures(now))
		}
		want := single.Figures(now)
		for name, f := range map[string]Figures{"counted": want, "merged": merged} {
			check(t, name, f, all, now)
		}
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			a, known := want.TTFT.Quantile(q)
			if b, same := merged.TTFT.Quantile(q); a != b || known != same {
				t.Fatalf("merged: quantile %v of TTFT is %v, want %v", q, b, a)
			}
			back, err := Decode(want.TTFT.Encode())
			if b, same := back.Quantile(q); err != nil || a != b || known != same {
				t.Fatalf("encoded: quantile %v of TTFT is %v (%v), want %v", q, b, err, a)
			}
		}
		if later := now.Add(Length + SlotLength); !single.Figures(later).Empty() {
			t.Fatal("forgotten: the window is not empty")
		}
	})
}

func record(w *Window, e seen) {
	switch e.kind {
	case "arrived":
		w.Arrived(e.at)
	case "refused":
		w.Refused(e.at)
	case "first":
		w.FirstToken(e.at, e.ttft)
	case "finished":
		w.Finished(e.at, e.prompt, e.output, e.decodeTotal)
	}
}

// check compares figures with the events of the slots that they cover.
func check(t *rapid.T, invariant string, f Figures, all []seen, now time.Time) {
	var counts = make(map[string]uint64)
	var recent uint64
	var ttft, tpot []float64
	for _, e := range all {
		if slotNumber(e.at) < slotNumber(now)-Slots {
			continue
		}
		counts[e.kind]++
		switch age := now.Unix() - e.at.Unix(); {
		case e.kind == "arrived" && age >= 1 && age <= 5:
			recent++
		case e.kind == "first":
			ttft = append(ttft, e.ttft.Seconds())
		case e.kind == "finished" && e.output > 1:
			tpot = append(tpot, e.decodeTotal.Seconds()/float64(e.output-1))
		}
	}
	if f.Arrivals != counts["arrived"] || f.Refused != counts["refused"] || f.Finished != counts["finished"] ||
		f.Recent != recent || f.TTFT.Count() != counts["first"] || f.Prompt.Count() != counts["finished"] {
		t.Fatalf("%s: %+v, want %v and %d recent arrivals", invariant, f, counts, recent)
	}
	if _, known := f.Rate(); known != (now.After(start)) {
		t.Fatalf("%s: the rate is known: %v", invariant, known)
	}
	accurate(t, f.TTFT, ttft)
	accurate(t, f.TPOT, tpot)
}

// accurate compares the median and the P99 of a sketch with those of its values.
func accurate(t *rapid.T, s Sketch, values []float64) {
	slices.Sort(values)
	for _, q := range []float64{0.5, 0.99} {
		got, known := s.Quantile(q)
		if !known && len(values) == 0 {
			continue
		}
		want := values[int(math.Ceil(q*float64(len(values))))-1]
		if !known || math.Abs(got-want) > Accuracy*want*(1+1e-9) {
			t.Fatalf("accurate: quantile %v is %v, want %v of %v", q, got, want, values)
		}
	}
}

// TestUnknownIsNotZero checks that what was not observed has no figure.
func TestUnknownIsNotZero(t *testing.T) {
	f := NewWindow(start).Figures(start)
	if _, known := f.Rate(); known {
		t.Error("the rate is known without observed time")
	}
	for _, s := range []Sketch{f.TTFT, f.TPOT, f.Prompt, f.Output} {
		if _, known := s.Quantile(0.5); known || s.Encode() != nil {
			t.Error("an empty sketch has a quantile")
		}
		if _, known := s.Mean(); known {
			t.Error("an empty sketch has a mean")
		}
	}
	if _, err := Decode([]byte{1, 2, 3}); err == nil {
		t.Error("bytes that are no sketch were decoded")
	}
}

// TestRate checks the rate over a whole window, and over a shorter time after the start.
func TestRate(t *testing.T) {
	w, now := NewWindow(start), start
	for range 300 {
		now = now.Add(500 * time.Millisecond)
		w.Arrived(now)
		rate, known := w.Figures(now.Add(time.Millisecond)).Rate()
		if !known || now.Sub(start) > 10*time.Second && math.Abs(rate-2) > 0.2 {
			t.Fatalf("after %s the rate is %v", now.Sub(start), rate)
		}
	}
	if f := w.Figures(now); f.Recent != 2*RecentSeconds || f.Observed > Length+SlotLength {
		t.Errorf("%d recent arrivals within %s", f.Recent, f.Observed)
	}
}

// TestFiguresAreUpToDate checks that figures have what came since the last call, and not what is over since.
func TestFiguresAreUpToDate(t *testing.T) {
	now := time.Unix(1000, 0)
	w := NewWindow(now)
	for i := range 3 {
		w.Arrived(now)
		w.FirstToken(now, time.Second)
		if f := w.Figures(now); f.Arrivals != uint64(i+1) || f.TTFT.Count() != uint64(i+1) {
			t.Errorf("after %d: %+v", i+1, f)
		}
	}
	if f := w.Figures(now.Add(Length)); f.Arrivals != 3 || f.TTFT.Count() != 3 {
		t.Errorf("at the end of the window: %+v", f)
	}
	if f := w.Figures(now.Add(Length + SlotLength)); !f.Empty() {
		t.Errorf("after the window: %+v", f)
	}
}
