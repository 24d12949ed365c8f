package replica

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
	"troupe/core/lora"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		if rapid.IntRange(0, 9).Draw(t, "started") > 0 {
			w.startup()
		}
		t.Repeat(map[string]func(*rapid.T){
			"":           func(*rapid.T) { w.checkState() },
			"life cycle": func(*rapid.T) { w.lifeCycle() },
			"submit":     func(*rapid.T) { w.submit() },
			"submit 2":   func(*rapid.T) { w.submit() },
			"leave":      func(*rapid.T) { w.leave() },
			"arrive":     func(*rapid.T) { w.arrive() },
			"done":       func(*rapid.T) { w.done() },
			"done 2":     func(*rapid.T) { w.done() },
			"done 3":     func(*rapid.T) { w.done() },
			"crash":      func(*rapid.T) { w.crash() },
			"gate":       func(*rapid.T) { w.gate() },
			"memory":     func(*rapid.T) { w.resize() },
			"timer":      func(*rapid.T) { w.fire() },
			"adapters":   func(*rapid.T) { w.adapters() },
			"hold":       func(*rapid.T) { w.hold() },
			"turn":       func(*rapid.T) { w.turn() },
			"turn 2":     func(*rapid.T) { w.turn() },
			"turn 3":     func(*rapid.T) { w.grant() },
			"time":       func(*rapid.T) { w.pass() },
			"plan":       func(*rapid.T) { w.event(func() []Effect { return w.m.Plan(w.now) }) },
		})
		w.finish()
	})
}

// startup leads to Serving, or to a state shortly before it.
func (w *world) startup() {
	w.event(func() []Effect { return w.m.Start(w.now) })
	w.load()
	w.event(func() []Effect { return w.m.Adopted(w.resident(), w.now) })
	w.event(func() []Effect { return w.m.EngineReady(0, Capture{}, w.now) })
	if w.m.State() == Confirming && rapid.Bool().Draw(w.T, "confirm") {
		w.confirm(w.model.RevisionDigest)
	}
}

func (w *world) load() {
	w.event(func() []Effect { return w.m.Loaded(w.model, w.now) })
}

func (w *world) confirm(digest string) {
	w.confirmed[digest] = true
	w.event(func() []Effect { return w.m.ConfirmRevision(digest, w.now) })
}

func (w *world) digest(label string) string {
	return rapid.SampledFrom([]string{"", "r-1", "r-2"}).Draw(w.T, label)
}

func (w *world) folder() (f Folder) {
	if f.Fault = w.digest("fault"); f.Fault != "" {
		f.Elsewhere = w.digest("elsewhere")
	}
	return f
}

func (w *world) resident() (all []kv.Committed) {
	for i, h := range submissionHashes(rapid.IntRange(0, 4).Draw(w.T, "resident")) {
		w.hbm[int32(i)] = h
		all = append(all, kv.Committed{Block: int32(i), Hash: h})
	}
	return all
}

// lifeCycle reports an event of the life cycle, whether expected or not.
func (w *world) lifeCycle() {
	switch rapid.IntRange(0, 32).Draw(w.T, "event") {
	case 0:
		w.event(func() []Effect { return w.m.Start(w.now) })
	case 1, 2:
		w.load()
	case 3:
		why := Refusal{Reason: rapid.SampledFrom([]Reason{NotReady, LoadFailed}).Draw(w.T, "why")}
		w.event(func() []Effect { return w.m.LoadRefused(why, w.digest("found"), w.now) })
	case 4, 5:
		if w.m.State() == Adopting {
			w.event(func() []Effect { return w.m.Adopted(w.resident(), w.now) })
		} else {
			w.event(func() []Effect { return w.m.Adopted(nil, w.now) })
		}
	case 6, 7, 8, 9:
		w.confirm(w.digest("confirmed"))
	case 10:
		w.drained = false
		w.event(func() []Effect { return w.m.Drain(w.now) })
	case 13, 14:
		w.level = true
		w.event(func() []Effect { return w.m.Standby(w.now) })
	case 15, 16:
		w.level = false
		w.event(func() []Effect { return w.m.Activate(w.now) })
	case 11:
		w.event(func() []Effect { return w.m.FolderChecked(w.folder(), w.now) })
	case 17:
		w.event(func() []Effect { return w.m.Save(w.now) })
	case 18, 19:
		w.event(func() []Effect { return w.m.BlocksSaved(1, w.digest("fault"), w.now) })
	case 12:
		w.event(w.m.Stop)
		w.running = false // the engine stops with the replica
		w.holds, w.asked = 0, false
	}
}

func (w *world) id() string {
	return rapid.SampledFrom([]string{"a1", "a2", "a3", "b1", "b2", "c1"}).Draw(w.T, "id")
}

func (w *world) adapter() string {
	if w.m.cfg.MaxAdapters == 0 || rapid.IntRange(0, 2).Draw(w.T, "base") > 0 {
		return ""
	}
	return rapid.SampledFrom([]string{"x@1", "x@2", "y@1"}).Draw(w.T, "adapter")
}

func (w *world) submit() {
	prompt := rapid.IntRange(1, 14).Draw(w.T, "prompt")
	s := submission(w.id(), prompt, rapid.SampledFrom([]int{0, 0, 0, 1, 2, 5}).Draw(w.T, "output"),
		rapid.IntRange(1, 5).Draw(w.T, "max"), w.adapter())
	if rapid.IntRange(0, 3).Draw(w.T, "stops") == 0 {
		s.Stops = []uint32{uint32(prompt + 2)}
	}
	s.Revision, s.Arrived = w.digest("revision"), w.now
	w.submitted = s
	w.event(func() []Effect { return w.m.Submit(s, w.now) })
	w.submitted = nil
}

// leave ends a sequence because of its session or a migration, or queries it.
func (w *world) leave() {
	id := w.id()
	switch rapid.IntRange(0, 4).Draw(w.T, "how") {
	case 0:
		w.event(func() []Effect { return w.m.Cancel(id) })
	case 1:
		w.event(func() []Effect { return w.m.Lost(id) })
	case 2:
		if w.m.Has(id) {
			w.m.CountMoved()
			w.m.Remove(id)
			delete(w.next, id)
		}
	case 3:
		if w.m.Has(id) {
			w.m.Remove(id)
			delete(w.next, id)
		}
	case 4:
		if known, _ := w.m.Query(id); known.State == "" && w.next[id] != nil {
			w.Fatalf("one end: %s is unknown and has not ended", id)
		}
	}
}

// arrive lets a sequence migrate to this replica, where it waits.
func (w *world) arrive() {
	if w.m.Accepting() != nil {
		return
	}
	s := submission(w.id(), rapid.IntRange(1, 9).Draw(w.T, "prompt"), 1, 4, "")
	if _, why := w.m.Batch().Submit(s.Request); why == nil {
		w.m.Arrived(s.ID, "", 1)
		w.next[s.ID] = &progress{next: 1}
		w.advance()
	}
}

// done ends the step in flight, or reports the end of an earlier one again.
func (w *world) done() {
	if !w.m.InFlight() {
		w.event(func() []Effect { return w.m.StepDone(w.m.Steps(), nil, nil, w.now) })
		return
	}
	if rapid.IntRange(0, 9).Draw(w.T, "late") == 0 {
		w.event(func() []Effect { return w.m.StepDone(w.m.Steps()-1, nil, nil, w.now) })
		return
	}
	var bad []int
	if n := len(w.tokens()); n > 0 && rapid.IntRange(0, 9).Draw(w.T, "bad") == 0 {
		bad = []int{rapid.IntRange(0, n-1).Draw(w.T, "which")}
	}
	tokens := w.tokens()
	if isCanary(w.m.current.entries) {
		if rapid.IntRange(0, 3).Draw(w.T, "wrong") == 0 {
			tokens[0]++
			w.wrong = true // if it is the first one, those that follow differ from it
		}
		w.wrong = w.wrong || len(bad) > 0
	}
	w.event(func() []Effect {
		w.running = false
		return w.m.StepDone(w.m.current.step, tokens, bad, w.now)
	})
}

// crash restarts the engine, sometimes before it has begun the step in flight.
func (w *world) crash() {
	w.event(func() []Effect {
		begun, crashed := w.running && rapid.Bool().Draw(w.T, "begun"), uint64(0)
		if begun {
			crashed = w.m.current.step
			for _, e := range w.m.current.entries {
				w.crashes[e.ID]++
			}
		}
		w.alone = begun && len(w.m.current.entries) == 1
		w.wrong = w.wrong || w.alone && isCanary(w.m.current.entries) // it may be the third crash
		w.running = false
		return w.m.EngineReady(crashed, Capture{}, w.now)
	})
	if w.m.InFlight() && !w.running {
		w.Fatal("one step: the engine restarted and was not sent the step in flight")
	}
}

// gate starts or ends a restore, or makes a gate fail.
func (w *world) gate() {
	switch rapid.IntRange(0, 2).Draw(w.T, "gate") {
	case 0:
		w.restoring = true
	case 1:
		w.ending, w.complete = true, rapid.Bool().Draw(w.T, "complete")
	case 2:
		w.event(func() []Effect {
			effects := w.abort()
			w.running = w.running && effects == nil
			return effects
		})
	}
}

func (w *world) resize() {
	blocks := rapid.IntRange(1, 14).Draw(w.T, "blocks")
	lease := rapid.SampledFrom([]string{"m-0", "m-0", "m-0", "other"}).Draw(w.T, "lease")
	switch rapid.IntRange(0, 2).Draw(w.T, "resize") {
	case 0:
		if w.m.Pool() != nil {
			blocks = min(blocks, w.m.Pool().Stats().Blocks)
		}
		attempt := rapid.Uint64Range(1, 3).Draw(w.T, "attempt")
		w.event(func() []Effect { return w.m.Shrink(lease, blocks, attempt) })
	case 1:
		if w.m.Pool() != nil {
			blocks = max(blocks, w.m.Pool().Stats().Blocks)
		}
		w.event(func() []Effect { return w.m.Grow(lease, blocks) })
	case 2:
		w.event(func() []Effect { return w.m.Fired(KVTimer, 0, w.now) })
	}
}

func (w *world) fire() {
	timer := rapid.Custom(func(t *rapid.T) Timer {
		return Timer(rapid.IntRange(int(RetryTimer), int(WatchTimer)).Draw(t, "timer"))
	}).Draw(w.T, "timer")
	w.event(func() []Effect { return w.m.Fired(timer, 0, w.now) })
}

// pass lets time pass and checks the steps.
func (w *world) pass() {
	for range rapid.IntRange(1, 20).Draw(w.T, "seconds") {
		w.now = w.now.Add(watchEvery)
		w.event(func() []Effect { return w.m.Fired(WatchTimer, 0, w.now) })
	}
}

// adapters reports an event of the adapter pool.
func (w *world) adapters() {
	if w.m.cfg.MaxAdapters == 0 {
		return
	}
	at := map[string]lora.Location{"x@1": {State: rapid.SampledFrom([]lora.State{lora.Absent, lora.Idle,
		lora.Active}).Draw(w.T, "located")}}
	a := Adapter{Name: "x", Key: "x@1", HasPath: true, Given: true, Base: w.digest("base")}
	switch rapid.IntRange(0, 9).Draw(w.T, "event") {
	case 0:
		w.event(w.m.Leased)
	case 1:
		w.event(w.m.LeaseRefused)
	case 2:
		w.event(w.m.PoolReady)
	case 3, 4, 5:
		if len(w.pins) > 0 {
			name := w.pins[0]
			w.pins = w.pins[1:]
			var why *lora.Refusal
			if rapid.IntRange(0, 4).Draw(w.T, "refuse") == 0 {
				reasons := []lora.Reason{lora.NoRoom, lora.TooLarge}
				why = &lora.Refusal{Reason: rapid.SampledFrom(reasons).Draw(w.T, "why")}
			}
			w.event(func() []Effect { return w.m.PinResult(name, why) })
		}
	case 6:
		w.event(func() []Effect { return w.m.AdaptersChanged(at) })
	case 7:
		pinned := rapid.Bool().Draw(w.T, "pinned")
		w.event(func() []Effect { return w.m.Apply(a, pinned) })
	case 8:
		w.event(func() []Effect { return w.m.Forget(a) })
	case 9:
		w.event(w.m.Want)
	}
}

// hold holds a sequence for a while, as a migration does.
func (w *world) hold() {
	if w.m.Batch() == nil {
		return
	}
	if id := w.id(); w.held2 == "" && w.m.Has(id) && w.m.Batch().Hold(id) {
		w.held2 = id
		return
	}
	w.m.Batch().Resume(w.held2)
	w.held2 = ""
	if w.m.State() != Stopping {
		w.advance()
	}
}

// finish ends all sequences and checks that nothing is left.
func (w *world) finish() {
	if w.m.Batch() == nil || w.m.State() == Stopping {
		return
	}
	w.restoring = false
	w.event(func() []Effect { return w.m.Grow("m-0", max(w.m.Pool().Stats().Blocks, 8)) })
	for id := range w.next {
		w.event(func() []Effect { return w.m.Cancel(id) })
	}
	for i := 0; w.m.Stepping() || w.asked; i++ {
		if i > 100 {
			w.Fatal("one step: the steps do not end")
		}
		w.now = w.now.Add(time.Millisecond)
		if !w.m.Stepping() {
			w.grant()
			continue
		}
		w.event(func() []Effect {
			w.running = false
			return w.m.StepDone(w.m.current.step, w.tokens(), nil, w.now)
		})
	}
	w.endRestore(false)
	if stats := w.m.Pool().Stats(); stats.Free != stats.Blocks || len(w.m.sequences) > 0 {
		w.Fatalf("free: %+v with %d sequences", stats, len(w.m.sequences))
	}
}
