package export

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/kv"
)

// world is a holder, and replicas that request its blocks in any order. It checks the invariants of
// doc.go by name.
type world struct {
	*rapid.T
	m       *Machine
	cfg     Config
	locked  map[string][]int32 // by export
	asker   map[string]Actor   // by export; the requester to be answered
	sent    uint64
	damaged []kv.Hash // damaged blocks of the current event
	numbers int32
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, locked: make(map[string][]int32), asker: make(map[string]Actor)}
		w.cfg = Config{Name: "tier", MaxBytes: 10, NotReady: rapid.IntRange(0, 9).Draw(t, "late") == 0}
		if rapid.Bool().Draw(t, "own") {
			w.cfg.Own = &Own{Space: hash("w"), Bytes: 10}
		}
		w.m = New(w.cfg)
		t.Repeat(map[string]func(*rapid.T){
			"lease":       func(*rapid.T) { w.lease() },
			"lease again": func(*rapid.T) { w.lease() },
			"release": func(*rapid.T) {
				id := w.id()
				w.apply(id, func() []Effect { return w.m.Release(id) })
			},
			"ended": func(*rapid.T) { w.end() },
			"locked": func(*rapid.T) { // without a Lock
				id := w.id()
				if _, ignored := w.apply(id, func() []Effect { return w.m.Locked(id, nil) })[0].(Ignored); !ignored {
					t.Fatal("ignored: Locked without Lock had an effect")
				}
			},
			"": func(*rapid.T) { w.check() },
		})
	})
}

func (w *world) id() string { return fmt.Sprint(rapid.IntRange(0, 11).Draw(w.T, "id")) }

func (w *world) lease() {
	r := Request{ID: w.id(), From: Actor{"n", fmt.Sprint("r-", rapid.IntRange(0, 3).Draw(w.T, "from"))},
		Space:      rapid.SampledFrom([]kv.Hash{hash("w"), hash("w"), hash("w"), hash("x"), {}}).Draw(w.T, "space"),
		BlockBytes: rapid.SampledFrom([]uint64{10, 10, 10, 0, 9, 11}).Draw(w.T, "bytes"),
		Within:     time.Duration(rapid.IntRange(0, 20).Draw(w.T, "s")) * time.Second}
	was := w.m.State(r.ID)
	known := w.asker[r.ID]
	w.asker[r.ID] = r.From
	effects := w.apply(r.ID, func() []Effect { return w.m.Lease(r) })
	switch state := w.m.State(r.ID); {
	case was != None && len(effects) > 0:
		w.Fatalf("answered: a repeated request of %s had effects %v", known, effects)
	case state != None && w.cfg.NotReady:
		w.Fatal("own: a holder that is not ready sends blocks")
	case was == None && state != None && (r.Space == kv.Hash{} || r.BlockBytes == 0 || r.BlockBytes > 10):
		w.Fatalf("own: accepted %+v", r)
	case was == None && state != None && w.cfg.Own != nil && (r.Space != w.cfg.Own.Space || r.BlockBytes != 10):
		w.Fatalf("own: sends blocks of another space: %+v", r)
	}
}

func (w *world) end() {
	id, fault := w.id(), rapid.SampledFrom([]string{"", "", "stalled"}).Draw(w.T, "fault")
	w.damaged = nil
	if rapid.IntRange(0, 3).Draw(w.T, "damaged") == 0 {
		w.damaged = []kv.Hash{hash("d")}
	}
	ended, blocks := w.m.State(id) == Sending || w.m.State(id) == Ending, len(w.locked[id])
	w.apply(id, func() []Effect { return w.m.Ended(id, w.damaged, fault) })
	if ended && fault == "" && w.damaged == nil {
		w.sent += uint64(blocks)
	}
	if ended && w.m.State(id) != None {
		w.Fatal("locked: an export survived its end")
	}
}

// apply carries out one event of an export and checks its effects.
func (w *world) apply(id string, event func() []Effect) []Effect {
	before := w.state()
	effects := event()
	dropped, answers := false, 0
	for _, e := range effects {
		switch e := e.(type) {
		case Lock:
			for range rapid.IntRange(0, 3).Draw(w.T, "has") {
				w.numbers++
				w.locked[id] = append(w.locked[id], w.numbers)
			}
			if again := w.m.Locked(id, w.locked[id]); len(again) != 1 {
				w.Fatalf("locked: %v", again)
			} else if s := again[0].(Send); !slices.Equal(s.Blocks, w.locked[id]) || s.Within > 10*time.Second {
				w.Fatalf("bounded: %+v", s)
			}
		case Drop:
			if dropped = true; !slices.Equal(e.Hashes, w.damaged) {
				w.Fatalf("damaged: dropped %v", e.Hashes)
			}
		case Unlock:
			if !slices.Equal(e.Blocks, w.locked[id]) || !dropped && len(w.damaged) > 0 {
				w.Fatalf("damaged: unlocked %v of %v, dropped %v", e.Blocks, w.locked[id], dropped)
			}
			delete(w.locked, id)
		case Answer, Refuse:
			answers++
			w.checkAnswer(id, e)
		case Ignored:
			if len(effects) > 1 || !reflect.DeepEqual(before, w.state()) {
				w.Fatalf("ignored: %v", effects)
			}
		}
	}
	if answers > 1 || answers == 1 && w.m.State(id) != None {
		w.Fatalf("answered: %d answers in state %s", answers, w.m.State(id))
	}
	return effects
}

func (w *world) checkAnswer(id string, e Effect) {
	to := Actor{}
	switch e := e.(type) {
	case Answer:
		if to = e.To; len(w.damaged) > 0 {
			w.Fatal("damaged: an export with a damaged block was sent")
		}
	case Refuse:
		to = e.To
	}
	if to != w.asker[id] {
		w.Fatalf("answered: %v instead of %v", to, w.asker[id])
	}
}

// state returns a copy of the machine's exports.
func (w *world) state() map[string]export {
	all := make(map[string]export)
	for id, x := range w.m.exports {
		all[id] = *x
	}
	return all
}

// check checks the invariants that hold between events.
func (w *world) check() {
	if n := len(w.m.exports); n > 8 {
		w.Fatalf("bounded: %d exports", n)
	}
	for _, id := range slices.Sorted(maps.Keys(w.locked)) {
		if s := w.m.State(id); s != Sending && s != Ending {
			w.Fatalf("locked: blocks of an export in state %s are locked", s)
		}
	}
	if w.m.Sent() != w.sent {
		w.Fatalf("damaged: counted %d sent blocks, want %d", w.m.Sent(), w.sent)
	}
}
