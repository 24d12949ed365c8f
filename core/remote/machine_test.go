package remote

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const capacity = 300

// world is replicas, a router and holders, which behave arbitrarily. It checks the invariants of
// doc.go by name.
type world struct {
	*rapid.T
	m       *Machine
	now     time.Time
	lookups map[string]Actor    // last requester by lookup
	fetches map[string]*tracked // accepted fetches
	order   []string            // ids of waiting fetches in the order of their requests
	id      string              // id in the current event
	from    Actor               // sender of the current event
}

// tracked is a fetch that was accepted.
type tracked struct {
	Request
	deadline time.Time
	leased   bool
	gone     bool // the requester no longer waits
	answers  int
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, m: New(capacity), now: epoch, lookups: make(map[string]Actor),
			fetches: make(map[string]*tracked)}
		actions := map[string]func(*rapid.T){
			"find": func(*rapid.T) {
				id, from := w.request("l"), w.sender()
				w.lookups[id] = from
				w.do(id, from, func() []Effect { return w.m.Find(id, from, []uint64{1, 2}, w.now) })
			},
			"found": func(*rapid.T) {
				id := w.request("l")
				runs := []Run{{rapid.IntRange(0, 3).Draw(t, "first"), rapid.IntRange(0, 3).Draw(t, "blocks"), "b"}}
				w.do(id, Actor{}, func() []Effect { return w.m.Found(id, runs, w.now) })
			},
			"fetch":       func(*rapid.T) { w.fetch() },
			"fetch again": func(*rapid.T) { w.fetch() },
			"ended":       func(*rapid.T) { w.ended() },
			"ended again": func(*rapid.T) { w.ended() },
			"release":     func(*rapid.T) { w.release() },
			"sweep":       func(*rapid.T) { w.sweep() },
			"later": func(*rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(*rapid.T) { w.check() },
		}
		for range 3 { // one Repeat is too short for rare sequences of events
			t.Repeat(actions)
		}
		w.do("", Actor{}, w.m.Stop)
		if len(w.m.lookups)+len(w.m.fetches)+len(w.fetches) != 0 || w.m.Stats().Active+w.m.Stats().Waiting != 0 {
			t.Fatalf("stopped: %v, %v", w.m.Stats(), w.fetches)
		}
	})
}

func (w *world) request(kind string) string {
	return fmt.Sprint(kind, rapid.IntRange(0, 7).Draw(w.T, "id"))
}

func (w *world) sender() Actor {
	return Actor{ID: fmt.Sprint("r-", rapid.IntRange(0, 2).Draw(w.T, "from"))}
}

func (w *world) fetch() {
	r := Request{
		ID: w.request("f"), From: w.sender(), Holder: Actor{ID: "b"}, Name: "b", Blocks: []uint64{1},
		Bytes:  rapid.Int64Range(1, 400).Draw(w.T, "bytes"),
		Within: time.Duration(rapid.IntRange(0, 4000).Draw(w.T, "within")) * time.Millisecond,
	}
	if rapid.IntRange(0, 9).Draw(w.T, "bad") == 0 {
		r.Malformed = "hash"
	}
	if f := w.fetches[r.ID]; f != nil {
		f.From, f.gone = r.From, false
	} else {
		w.order = append(w.order, r.ID)
		w.fetches[r.ID] = &tracked{Request: r, deadline: w.now.Add(r.Within)}
	}
	w.do(r.ID, r.From, func() []Effect { return w.m.Fetch(r, w.now) })
	if f := w.fetches[r.ID]; f != nil && w.m.State(Fetch, r.ID) == None {
		w.Fatalf("answered: %s was neither accepted nor refused", r.ID)
	}
}

func (w *world) ended() {
	id := w.request("f")
	if f := w.fetches[id]; f != nil && !f.leased {
		return // only a holder that was asked can answer
	}
	w.do(id, Actor{}, func() []Effect {
		switch rapid.IntRange(0, 2).Draw(w.T, "how") {
		case 0:
			return w.m.Sent(id, 1, w.now)
		case 1:
			return w.m.Refused(id, w.now)
		}
		return w.m.Failed(id, "fault", w.now)
	})
	if w.m.State(Fetch, id) != None {
		w.Fatalf("kept: %s survived its end", id)
	}
}

func (w *world) release() {
	id := w.request("f")
	if f := w.fetches[id]; f != nil {
		f.gone = true
	}
	w.do(id, Actor{}, func() []Effect { return w.m.Release(id, w.now) })
}

func (w *world) sweep() {
	w.do("", Actor{}, func() []Effect { return w.m.Sweep(w.now) })
	for id, f := range w.fetches {
		if !f.leased && w.now.After(f.deadline) {
			w.Fatalf("deadline: %s still waits", id)
		}
	}
	for id, l := range w.m.lookups {
		if w.now.Sub(l.asked) > time.Second {
			w.Fatalf("bounded: lookup %s was not dropped", id)
		}
	}
}

// do carries out one event and checks its effects.
func (w *world) do(id string, from Actor, event func() []Effect) {
	w.id, w.from = id, from
	before := w.snapshot()
	effects := event()
	for _, e := range effects {
		w.carryOut(e)
		if _, ok := e.(Ignored); ok && (len(effects) != 1 || !reflect.DeepEqual(before, w.snapshot())) {
			w.Fatalf("ignored: %v", effects)
		}
	}
}

// snapshot returns the state that an ignored event must not change.
func (w *world) snapshot() any {
	fetches := make(map[string]fetch)
	for id, f := range w.m.fetches {
		fetches[id] = *f
	}
	return []any{maps.Clone(w.m.lookups), fetches, w.m.Stats()}
}

// carryOut carries out one effect.
func (w *world) carryOut(effect Effect) {
	switch e := effect.(type) {
	case AnswerFind:
		if e.To != w.lookups[e.ID] {
			w.Fatalf("answered: %v instead of %v", e.To, w.lookups[e.ID])
		}
		delete(w.lookups, e.ID)
	case Lease:
		f := w.fetches[e.ID]
		if f.leased || e.Within <= 0 || !w.now.Add(e.Within).Equal(f.deadline) {
			w.Fatalf("deadline: %+v for %+v at %v", e, f, w.now)
		}
		if f.leased = true; w.order[0] != e.ID {
			w.Fatalf("ordered: %s before %v", e.ID, w.order)
		}
		w.order = w.order[1:]
	case Release:
		if f := w.fetches[e.ID]; f == nil || !f.leased {
			w.Fatalf("leased: %s is released, and its holder was not asked", e.ID)
		}
	case AnswerFetch:
		w.answer(e.ID, e.To)
	case Relay:
		w.answer(e.ID, e.To)
	case Refuse:
		w.answer(e.ID, e.To)
		if e.Reason == Invalid || e.Reason == QueueFull {
			w.forget(e.ID)
		}
	case Forget:
		if f := w.fetches[e.ID]; f == nil || f.answers != 1 && !f.gone {
			w.Fatalf("answered: %s ends, and was answered %v times", e.ID, f)
		}
		w.forget(e.ID)
	}
}

func (w *world) answer(id string, to Actor) {
	f := w.fetches[id]
	if f == nil || f.gone && to != (Actor{}) || !f.gone && to != f.From {
		w.Fatalf("answered: %s to %v, want %+v", id, to, f)
	}
	f.answers++
}

func (w *world) forget(id string) {
	delete(w.fetches, id)
	w.order = slices.DeleteFunc(w.order, func(o string) bool { return o == id })
}

// check checks the invariants that hold between events.
func (w *world) check() {
	if len(w.m.lookups) > 256 || w.m.Stats().Waiting > 64 {
		w.Fatalf("bounded: %d lookups, %d fetches wait", len(w.m.lookups), w.m.Stats().Waiting)
	}
	var bytes int64
	leased := 0
	for id, f := range w.fetches {
		if w.m.State(Fetch, id) == None {
			w.Fatalf("kept: the command of %s", id)
		}
		if f.leased {
			leased, bytes = leased+1, bytes+f.Bytes
		}
	}
	if len(w.m.fetches) != len(w.fetches) {
		w.Fatalf("kept: %d commands of %d fetches", len(w.fetches), len(w.m.fetches))
	}
	if bytes > capacity && leased > 1 {
		w.Fatalf("bounded: %d bytes of %d fetches in flight", bytes, leased)
	}
}
