package tier

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"pgregory.net/rapid"

	"troupe/core/export"
	"troupe/core/kv"
)

// slabs are three slabs, each for four small blocks or one large one.
var slabs = kv.Slabs{Count: 3, Bytes: 4 * kv.SlotUnit}

// use is the use of a slot by a request.
type use struct {
	slot  int32
	bytes int
	hash  kv.Hash
}

// world is the requesters of a tier, which behave arbitrarily. It checks the invariants of doc.go
// by name.
type world struct {
	*rapid.T
	m        *Machine
	lower    bool
	writers  map[string][]use // by reservation or flush
	readers  map[string][]use // by lock, export or copy
	content  map[int32]use    // content of the slots
	asker    map[string]Actor // requesters of waiting reservations and of flushes
	locks    map[string]Actor
	sizes    map[kv.Hash]int
	pins     map[string][]kv.Hash // by replica
	versions map[string]uint64
	copying  []kv.Demotion
	written  []kv.Hash // blocks written in the current event
	from     Actor     // sender of the current event
	id       string    // id in the current event
}

func newWorld(t *rapid.T) *world {
	w := &world{
		T: t, lower: rapid.Bool().Draw(t, "lower"), writers: make(map[string][]use), readers: make(map[string][]use),
		content: make(map[int32]use), asker: make(map[string]Actor), locks: make(map[string]Actor),
		sizes: make(map[kv.Hash]int), pins: make(map[string][]kv.Hash), versions: make(map[string]uint64),
	}
	w.m = New(Config{
		Name: "dram", Policy: rapid.SampledFrom(kv.PolicyNames()).Draw(t, "policy"), Lower: w.lower, Router: true,
		Limits: kv.TierLimits{Slabs: slabs, Watermark: rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "watermark"),
			IdleSteps: 4, Burst: 6},
		Export: export.Config{Name: "tier dram", MaxBytes: largeBytes},
	})
	return w
}

// block returns a block's hash; every third block is large.
func (w *world) block(n int) kv.Hash {
	h := kv.Root("block", fmt.Sprint(n), nil).Namespaced(space)
	if w.sizes[h] = smallBytes; n%3 == 0 {
		w.sizes[h] = largeBytes
	}
	return h
}

func (w *world) numbers(least int) []int {
	return rapid.SliceOfN(rapid.IntRange(0, 17), least, 6).Draw(w.T, "blocks")
}

func (w *world) blocks() (all []kv.Hash) {
	for _, n := range w.numbers(0) {
		all = append(all, w.block(n))
	}
	return all
}

// request returns the id of a request.
func (w *world) request(kind string) string {
	return fmt.Sprint(kind, rapid.IntRange(0, 5).Draw(w.T, "id"))
}

func (w *world) sender() Actor {
	return Actor{ID: fmt.Sprint("r-", rapid.IntRange(0, 2).Draw(w.T, "from"))}
}

// do carries out one event and checks its effects.
func (w *world) do(id string, event func() []Effect) []Effect {
	w.id = id
	before := w.snapshot()
	effects := event()
	for _, e := range effects {
		w.carryOut(e)
		ignored, ok := e.(Ignored)
		if x, isExport := e.(Export); isExport {
			_, ok = x.Effect.(export.Ignored)
		}
		if ok && (len(effects) != 1 || !reflect.DeepEqual(before, w.snapshot())) {
			w.Fatalf("ignored: %v, with effects %v", ignored, effects)
		}
	}
	w.check()
	return effects
}

// snapshot returns the state that an ignored event must not change.
func (w *world) snapshot() any {
	states := make(map[string]State)
	for id, r := range w.m.reservations {
		states["reservation "+id] = r.state
	}
	for id, l := range w.m.locks {
		states["lock "+id] = l.state
	}
	for id, f := range w.m.flushes {
		states["flush "+id] = f.state
	}
	for id, p := range w.m.pins {
		states[fmt.Sprint("pins ", id, p.version)] = p.state
	}
	return []any{states, w.m.Stats(), w.m.demotion, len(w.m.due)}
}

// carryOut carries out one effect.
func (w *world) carryOut(effect Effect) {
	switch e := effect.(type) {
	case AnswerReserve:
		w.answerReserve(e)
	case AnswerLock:
		w.answerLock(e)
	case AnswerFlush:
		w.checkAsker(e.ID, e.To)
		delete(w.writers, e.ID)
	case Copy:
		w.copy(e)
	case Erase:
		for _, slot := range e.Slots {
			w.write(e.ID, w.content[slot])
			delete(w.content, slot)
		}
		w.asker[e.ID] = w.from
	case ExpireReservation:
		w.asker[e.ID] = w.from
	case ExpirePins:
		w.versions[e.Replica] = e.Version
	case Export:
		if s, ok := e.Effect.(export.Send); ok {
			for _, slot := range s.Blocks {
				w.read(s.ID, w.content[slot])
			}
			w.asker[s.ID] = w.from
		}
	}
}

// checkAsker checks which requester gets the answer to a request that was not answered at once.
func (w *world) checkAsker(id string, to Actor) {
	if want, ok := w.asker[id]; !ok || want != to {
		w.Fatalf("answered: %s to %v, want %v (%v)", id, to, want, ok)
	}
	delete(w.asker, id)
}

func (w *world) answerReserve(e AnswerReserve) {
	if old, again := w.writers[e.ID]; again {
		if len(old) != len(e.Slots) || e.To != w.from {
			w.Fatalf("answered: %s again with %v, first %v", e.ID, e.Slots, old)
		}
		return
	}
	if e.ID != w.id || w.asker[e.ID] != (Actor{}) {
		w.checkAsker(e.ID, e.To)
	} else if e.To != w.from {
		w.Fatalf("answered: %s to %v, want %v", e.ID, e.To, w.from)
	}
	for _, s := range e.Slots {
		w.write(e.ID, use{s.Slot, w.sizes[s.Hash], s.Hash})
	}
}

func (w *world) answerLock(e AnswerLock) {
	if e.To != w.from || e.ID != w.id {
		w.Fatalf("answered: lock %s of %v", e.ID, e.To)
	}
	if old, again := w.readers[e.ID]; again {
		if len(old) != len(e.Slots) {
			w.Fatalf("answered: %s again with %v, first %v", e.ID, e.Slots, old)
		}
		return
	}
	for _, s := range e.Slots {
		w.read(e.ID, use{s.Slot, w.sizes[s.Hash], s.Hash})
	}
}

// copy starts a demotion.
func (w *world) copy(e Copy) {
	if w.copying != nil {
		w.Fatalf("one copy: %v while %v is in flight", e.Blocks, w.copying)
	}
	if !w.lower || w.m.demotion == Paused || w.m.demotion == Off {
		w.Fatalf("paused: copy in state %s", w.m.demotion)
	}
	w.copying = e.Blocks
	for _, b := range e.Blocks {
		if b.Size != e.Blocks[0].Size || len(e.Blocks) > 128 {
			w.Fatalf("one copy: blocks %v", e.Blocks)
		}
		w.read("copy", use{b.Slot, b.Size, b.Hash})
	}
}

// write records that a request writes a slot.
func (w *world) write(id string, u use) {
	for _, all := range []map[string][]use{w.writers, w.readers} {
		for other, uses := range all {
			if i := slices.IndexFunc(uses, func(v use) bool { return overlap(u, v) }); i >= 0 {
				w.Fatalf("writer: slot %+v of %s is slot %+v of %s", u, id, uses[i], other)
			}
		}
	}
	maps.DeleteFunc(w.content, func(_ int32, old use) bool { return overlap(u, old) })
	w.writers[id] = append(w.writers[id], u)
}

// read records that a request reads a slot.
func (w *world) read(id string, u use) {
	if w.content[u.slot] != u {
		w.Fatalf("reader: %s reads %+v, and the slot holds %+v", id, u, w.content[u.slot])
	}
	for other, uses := range w.writers {
		if slices.ContainsFunc(uses, func(v use) bool { return overlap(u, v) }) {
			w.Fatalf("writer: slot %+v of %s is being written by %s", u, id, other)
		}
	}
	w.readers[id] = append(w.readers[id], u)
}

// overlap reports whether two slots share bytes.
func overlap(a, b use) bool {
	from, other := slabs.Offset(a.slot, a.bytes), slabs.Offset(b.slot, b.bytes)
	return from < other+int64(b.bytes) && other < from+int64(a.bytes)
}

// check checks the invariants that hold between events.
func (w *world) check() {
	if len(w.m.waiting) > 64 {
		w.Fatalf("bounded: %d reservations wait", len(w.m.waiting))
	}
	for _, r := range w.m.waiting {
		if !w.m.tier.Reassigning(r.bytes) || r.state != Waiting {
			w.Fatalf("waits: %s in state %s waits for nothing", r.id, r.state)
		}
	}
	if on := w.m.demotion; on != Idle && on != Copying &&
		(w.m.tier.Reassigning(smallBytes) || w.m.tier.Reassigning(largeBytes)) {
		w.Fatalf("lower: a slab is being reassigned in state %s", on)
	}
	want := make(map[kv.Hash]bool)
	for _, hashes := range w.pins {
		for _, h := range hashes {
			if w.m.tier.State(h) == kv.Resident {
				want[h] = true
			}
		}
	}
	if got := w.m.Stats().Pinned; got != len(want) {
		w.Fatalf("pinned: %d blocks, want %d", got, len(want))
	}
	for id, uses := range w.readers {
		for _, u := range uses {
			if w.content[u.slot] != u {
				w.Fatalf("reader: the slot %+v of %s was overwritten", u, id)
			}
		}
	}
}
