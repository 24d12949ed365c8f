package preempt

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a replica that is preempted, and the targets around it. It answers arbitrarily and checks
// the invariants of doc.go by name.
type world struct {
	*rapid.T
	m          *Machine
	now        time.Time
	started    time.Time
	ended      time.Time
	deadline   time.Time
	fenced     bool // the replica has reported the fence
	round      uint64
	tried      []string // in this round
	lastTicked time.Time
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, now: time.Unix(1e6, 0)}
		w.deadline = w.now.Add(rapid.SampledFrom([]time.Duration{-time.Second, 0, 5 * time.Second,
			30 * time.Second}).Draw(t, "deadline"))
		w.m, w.started, w.lastTicked = New(w.deadline), w.now, w.now
		w.do(event{kind: StartEvent}, func() []Effect { return w.m.Start(w.now) })
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { w.check() },
			"fenced": func(*rapid.T) {
				to := w.targets()
				w.fenced = true
				w.do(event{kind: FencedEvent, targets: to}, func() []Effect { return w.m.Fenced(to, w.now) })
			},
			"migrated": func(t *rapid.T) {
				to, round := w.targets(), w.round
				if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
					round--
				}
				w.do(event{kind: MigratedEvent, targets: to, round: round},
					func() []Effect { return w.m.Migrated(round, to, w.now) })
			},
			"tick":  func(*rapid.T) { w.tick(time.Second) },
			"tick2": func(*rapid.T) { w.tick(time.Second) },
			"late":  func(*rapid.T) { w.tick(7 * time.Second) },
			"wait":  func(*rapid.T) { w.now = w.now.Add(300 * time.Millisecond) },
			"drained": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rare") == 0 {
					w.do(event{kind: DrainedEvent}, func() []Effect { return w.m.Drained(w.now) })
				}
			},
			"saved": func(*rapid.T) {
				w.do(event{kind: SavedEvent}, func() []Effect { return w.m.Saved(1, "", w.now) })
			},
			"lost": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					w.do(event{kind: LostEvent}, func() []Effect { return w.m.Lost("crashed", w.now) })
				}
			},
			"freed": func(*rapid.T) {
				w.do(event{kind: FreedEvent}, func() []Effect { return w.m.Freed(w.now) })
			},
			"gone": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					w.do(event{kind: GoneEvent}, func() []Effect { return w.m.Gone("lost", w.now) })
				}
			},
		})
	})
}

func (w *world) targets() []string {
	return rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b"}, {"c"}}).Draw(w.T, "targets")
}

func (w *world) tick(after time.Duration) {
	w.now = w.now.Add(after)
	to := w.targets()
	if w.m.Phase() == Finishing {
		w.tried = nil
	}
	w.do(event{kind: TickEvent, targets: to}, func() []Effect { return w.m.Tick(to, w.now) })
	w.lastTicked = w.now
}

// do makes an event and checks its effects.
func (w *world) do(e event, act func() []Effect) {
	before, was := *w.m, w.m.Phase()
	effects := act()
	for _, effect := range effects {
		switch f := effect.(type) {
		case Migrate:
			w.migrated(e, f)
		case Save:
			if !w.fenced {
				w.Fatal("fence first: sequences are saved before the replica reported the fence")
			}
			if w.now.Before(w.deadline) {
				w.Fatal("deadline: sequences are saved before the deadline")
			}
		case Free:
			if w.m.Phase() != Freeing {
				w.Fatalf("one end: Free in %v", w.m.Phase())
			}
		case Ignored:
			if len(effects) > 1 || !equal(before, *w.m) {
				w.Fatal("ignored: an ignored event changed something")
			}
		}
	}
	if was == Ended && !slices.Equal(effects, []Effect{Ignored{Ended, e.kind}}) {
		w.Fatalf("one end: %v follows ended", effects)
	}
	if was != Ended && w.m.Phase() == Ended {
		w.ended = w.now
	}
}

func (w *world) migrated(e event, f Migrate) {
	if !w.fenced {
		w.Fatal("fence first: sequences migrate before the replica reported the fence")
	}
	if f.Round == w.round {
		return // the command of the round, again
	}
	if !slices.Contains(e.targets, f.Target) {
		w.Fatalf("target: %s is none of %v", f.Target, e.targets)
	}
	if slices.Contains(w.tried, f.Target) {
		w.Fatalf("target: %s twice in a round", f.Target)
	}
	w.round, w.tried = f.Round, append(w.tried, f.Target)
}

func (w *world) check() {
	if w.m.Phase() == Finishing {
		w.tried = nil
	}
	limit := w.deadline.Add(30 * time.Second)
	if from := w.started.Add(30 * time.Second); from.After(limit) {
		limit = from
	}
	// Each of the three bounded phases may end one late tick after its time.
	if w.m.Phase() < Freeing && w.lastTicked.After(limit.Add(21*time.Second)) {
		w.Fatalf("bounded: %v %v after the deadline", w.m.Phase(), w.lastTicked.Sub(w.deadline))
	}
	var sum time.Duration
	for _, took := range w.m.Progress().Times {
		sum += took
	}
	until := w.m.since
	if w.m.Phase() == Ended {
		until = w.ended
	}
	if sum != until.Sub(w.started) {
		w.Fatalf("times: the phases took %v of %v", sum, until.Sub(w.started))
	}
}

func equal(a, b Machine) bool {
	return a.phase == b.phase && a.since.Equal(b.since) && a.times == b.times && a.counts == b.counts &&
		a.blocks == b.blocks && a.detail == b.detail && a.target == b.target && a.round == b.round &&
		slices.Equal(a.tried, b.tried)
}
