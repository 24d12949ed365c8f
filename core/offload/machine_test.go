package offload

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// world is a replica whose pool selects arbitrary blocks, a tier that stores an arbitrary part of
// them, and operators. It checks the invariants of doc.go by name.
type world struct {
	*rapid.T
	m     *Machine
	now   time.Time
	steps uint64

	next     int32
	copying  []kv.Committed // copy in flight; nil: none
	outcome  []bool         // outcome of the copy that ends
	paused   bool
	reported uint64           // reported steps
	asked    map[string]Actor // offload commands without an answer
	began    time.Time        // arrival of the first of them
	stored   int              // blocks stored since then
	pins     []kv.Hash        // pins that were loaded last
	loaded   bool
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, now: epoch, asked: make(map[string]Actor)}
		cfg := Config{Replica: "m-0", Node: "n1", Tier: "dram", Remote: true, Digest: true}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			cfg.Digest = false
		case 1:
			cfg.Tier = ""
		}
		w.m = New(cfg)
		actions := map[string]func(*rapid.T){
			"tick":       func(*rapid.T) { w.tick() },
			"tick again": func(*rapid.T) { w.tick() },
			"copied":     func(*rapid.T) { w.copied() },
			"retry": func(*rapid.T) {
				w.paused = false
				w.do(w.m.Retry)
			},
			"offload": func(*rapid.T) { w.offload() },
			"restore": func(*rapid.T) { w.command(w.m.Restore) },
			"flush":   func(*rapid.T) { w.command(w.m.Flush) },
			"pins": func(*rapid.T) {
				version := uint64(rapid.IntRange(0, 3).Draw(t, "version"))
				w.do(func() []Effect { return w.m.SyncPins(version) })
			},
			"lost": func(*rapid.T) {
				w.outcome = nil
				w.do(func() []Effect { return w.m.CopyLost(w.now) })
			},
			"": func(*rapid.T) { w.check() },
		}
		for range 3 { // one Repeat is too short for rare sequences of events
			t.Repeat(actions)
		}
	})
}

func (w *world) tick() {
	w.steps += uint64(rapid.IntRange(0, 20).Draw(w.T, "steps"))
	w.now = w.now.Add(time.Second)
	w.do(func() []Effect {
		return w.m.Tick(Tick{Steps: w.steps, Allocations: w.steps, Blocks: 64, AllBlocks: 64})
	})
	if w.m.State() != Off && w.steps-w.reported >= 32 {
		w.Fatalf("steps: %d of %d reported", w.reported, w.steps)
	}
}

func (w *world) copied() {
	number := w.m.copies - uint64(rapid.IntRange(0, 5).Draw(w.T, "late")/5)
	w.outcome = nil
	for range w.copying {
		w.outcome = append(w.outcome, rapid.Bool().Draw(w.T, "stored"))
	}
	fault := rapid.SampledFrom([]string{"", "", "disk"}).Draw(w.T, "fault")
	if w.copying != nil && number == w.m.copies {
		w.paused = fault != "" || !slices.Contains(w.outcome, true)
		for _, s := range w.outcome {
			if s {
				w.stored++
			}
		}
	}
	w.do(func() []Effect { return w.m.Copied(number, w.outcome, fault, w.now) })
}

func (w *world) offload() {
	id, from := fmt.Sprint(rapid.IntRange(0, 2).Draw(w.T, "id")), Actor{ID: fmt.Sprint("op-", w.steps)}
	ready := rapid.IntRange(0, 4).Draw(w.T, "starting") > 0
	if len(w.asked) == 0 {
		w.began, w.stored = w.now, 0
	}
	if ready && w.m.State() != Off {
		w.asked[id] = from
	}
	w.do(func() []Effect { return w.m.Offload(id, from, ready, w.now) })
}

// command sends a command that must be answered at once.
func (w *world) command(give func(string, Actor, bool) []Effect) {
	ready := rapid.Bool().Draw(w.T, "ready")
	effects := w.do(func() []Effect { return give("c", Actor{ID: "op"}, ready) })
	if len(effects) != 1 {
		w.Fatalf("answered: a command had effects %v", effects)
	}
	if r, refused := effects[0].(Refuse); !ready && (!refused || r.Reason != NotReady) {
		w.Fatalf("answered: a replica that is starting does %v", effects)
	}
}

// do carries out one event and checks its effects.
func (w *world) do(event func() []Effect) []Effect {
	before := *w.m
	effects := event()
	for _, e := range effects {
		if _, ok := e.(Ignored); ok && (len(effects) != 1 || !reflect.DeepEqual(before, *w.m)) {
			w.Fatalf("ignored: %v", effects)
		}
	}
	w.carryOut(effects)
	return effects
}

func (w *world) carryOut(effects []Effect) {
	for i, effect := range effects {
		switch e := effect.(type) {
		case Select:
			if i != len(effects)-1 || e.Burst != 4 {
				w.Fatalf("bounded: %+v", e)
			}
			w.carryOut(w.m.Selected(w.choose(e.Burst), w.now))
		case Copy:
			w.copy(e)
		case Finish:
			w.finish(e)
		case ReportSteps:
			w.reported += uint64(e.Steps)
			if w.reported != w.steps || e.Steps < 32 {
				w.Fatalf("steps: %d reported of %d, %d of them now", w.reported, w.steps, e.Steps)
			}
		case Answer:
			if to, ok := w.asked[e.ID]; !ok || to != e.To || e.Blocks != w.stored || e.Took != w.now.Sub(w.began) {
				w.Fatalf("counted: %+v, want %d blocks since %v to %v", e, w.stored, w.began, to)
			}
			delete(w.asked, e.ID)
		case LoadPins:
			w.pins, w.loaded = []kv.Hash{kv.Root("pin", fmt.Sprint(w.steps), nil)}, true
			w.carryOut(w.m.PinsLoaded([][]kv.Hash{w.pins}))
		case SendPins:
			if !w.loaded || !slices.Equal(e.Hashes, w.pins) {
				w.Fatalf("pins: %v, loaded %v", e.Hashes, w.pins)
			}
		}
	}
}

// choose returns the blocks that the pool selects.
func (w *world) choose(most int) (blocks []kv.Committed) {
	for range max(0, rapid.IntRange(-3, most).Draw(w.T, "selected")) {
		w.next++
		blocks = append(blocks, kv.Committed{Block: w.next})
	}
	return blocks
}

func (w *world) copy(e Copy) {
	if w.copying != nil {
		w.Fatal("one copy: another one is in flight")
	}
	if w.paused {
		w.Fatal("paused: a copy starts before the retry")
	}
	w.copying = e.Blocks
}

func (w *world) finish(e Finish) {
	if len(e.Blocks) != len(w.copying) {
		w.Fatalf("one copy: %d of %d blocks finished", len(e.Blocks), len(w.copying))
	}
	for i, f := range e.Blocks {
		at := len(w.copying) - 1 - i
		if f.Block != w.copying[at].Block || f.Stored != (at < len(w.outcome) && w.outcome[at]) {
			w.Fatalf("order: %v of %v, stored %v", e.Blocks, w.copying, w.outcome)
		}
	}
	if w.copying = nil; w.outcome == nil {
		w.paused = true
	}
}

// check checks the invariants that hold between events.
func (w *world) check() {
	if (w.m.State() == Copying) != (w.copying != nil) || w.paused != (w.m.State() == Paused) && w.m.State() != Off {
		w.Fatalf("paused: state %s, copying %v, paused %v", w.m.State(), w.copying, w.paused)
	}
	if slices.Contains(selecting, w.m.State()) {
		w.Fatalf("one copy: state %s between events", w.m.State())
	}
	if (w.m.command != nil) != (len(w.asked) > 0) {
		w.Fatalf("answered: %v were not", w.asked)
	}
}

// TestNumbers checks that the numbers of copies start above those of earlier machines, whose
// results may still arrive.
func TestNumbers(t *testing.T) {
	m := New(Config{Tier: "dram", Remote: true, Digest: true, Number: 7 << 32})
	m.Tick(Tick{Steps: 1, Blocks: 64, AllBlocks: 64})
	effects := m.Selected([]kv.Committed{{Block: 1}}, epoch)
	if c := effects[0].(Copy); c.Number != 7<<32+1 {
		t.Errorf("number %d", c.Number)
	}
	if _, ignored := m.Copied(1, []bool{true}, "", epoch)[0].(Ignored); !ignored {
		t.Error("the result of an earlier machine was applied")
	}
}
