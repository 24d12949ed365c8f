package hostcache

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{m: New(100), budget: 100, images: make(map[Key]*held), names: make(map[Name]*held),
			waiting: make(map[string]*held)}
		t.Repeat(map[string]func(*rapid.T){
			"":          w.check,
			"fill":      w.fill,
			"fill more": w.fill,
			"filled":    w.filled,
			"failed":    w.failed,
			"open":      w.open,
			"close":     w.close,
			"pin":       w.pin,
			"unpin":     w.unpin,
			"revoke":    w.revoke,
			"await":     w.await,
			"name":      w.name,
			"forget":    w.forget,
			"recovered": w.recovered,
			"resize":    w.resize,
		})
	})
}

// world is the memory of a cache as its owner sees it. It checks the invariants.
type world struct {
	m      *Machine
	budget int64
	images map[Key]*held
	names  map[Name]*held
	uses   int

	waiting map[string]*held // by waiter
	waiters int              // so far
}

// held is an image in memory.
type held struct {
	bytes   int64
	filling bool
	revoked bool
	pinned  bool
	readers map[string]bool
	last    int // number of the last use
}

func (h *held) mayGo() bool { return !h.filling && !h.revoked && !h.pinned && len(h.readers) == 0 }

func (w *world) key(t *rapid.T) Key {
	return Key{fmt.Sprintf("d-%d", rapid.IntRange(0, 4).Draw(t, "digest")), "bf16"}
}

// follow follows the effects of an event of a key. Free may come for the key itself only if dies.
func (w *world) follow(t *rapid.T, key Key, dies bool, effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Reserve:
			if w.images[e.Key] != nil {
				t.Fatalf("once: %v is reserved twice", e.Key)
			}
			w.uses++
			w.images[e.Key] = &held{bytes: e.Bytes, filling: true, readers: make(map[string]bool), last: w.uses}
		case Free:
			h := w.images[e.Key]
			if h == nil {
				t.Fatalf("once: %v is freed, and not there", e.Key)
			}
			w.unname(h)
			if e.Key == key && dies {
				delete(w.images, e.Key)
				continue
			}
			if !h.mayGo() {
				t.Fatalf("kept: %v is evicted: %+v", e.Key, *h)
			}
			for other, o := range w.images {
				if o.mayGo() && o.last < h.last {
					t.Fatalf("in order: %v goes before %v", e.Key, other)
				}
			}
			delete(w.images, e.Key)
		case Rename:
			if w.images[e.As] != nil {
				t.Fatalf("one content: %v becomes a second %v", e.Key, e.As)
			}
			w.images[e.As] = w.images[e.Key]
			delete(w.images, e.Key)
		case Attach:
			if w.images[e.Key] == nil {
				t.Fatalf("named: %v names %v, which is not there", e.Name, e.Key)
			}
			w.names[e.Name] = w.images[e.Key]
		case Proceed:
			if h := w.waiting[e.Waiter]; h == nil || h.filling && !h.revoked && w.images[key] == h && !dies {
				t.Fatalf("proceed: %s", e.Waiter)
			}
			delete(w.waiting, e.Waiter)
		case Refuse:
			var fixed int64
			for _, h := range w.images {
				if !h.mayGo() {
					fixed += h.bytes
				}
			}
			if len(effects) != 1 {
				t.Fatalf("whole: refused after %v", effects)
			}
			if fixed+e.Bytes <= w.budget {
				t.Fatalf("possible: %v of %d bytes is refused with %d fixed of %d", e.Key, e.Bytes, fixed, w.budget)
			}
			if got := e.Usage.Pinned + e.Usage.InUse; got != fixed {
				t.Fatalf("possible: usage %+v, want %d pinned and in use", e.Usage, fixed)
			}
		case Ignored:
			if len(effects) != 1 {
				t.Fatalf("ignored: %v", effects)
			}
		}
	}
}

func (w *world) used(h *held) { w.uses++; h.last = w.uses }

func (w *world) fill(t *rapid.T) {
	key, bytes := w.key(t), int64(rapid.IntRange(0, 60).Draw(t, "bytes"))
	pinned := rapid.IntRange(0, 3).Draw(t, "pinned") == 0
	had := w.images[key]
	if had != nil && !had.filling && !had.revoked {
		had.pinned = had.pinned || pinned
		w.used(had)
	}
	w.follow(t, key, false, w.m.Fill(key, bytes, pinned))
	if h := w.images[key]; had == nil && h != nil {
		h.pinned = pinned
	}
}

func (w *world) filled(t *rapid.T) {
	key, as := w.key(t), w.key(t)
	h := w.images[key]
	was := h != nil && h.filling // not a late report
	twin := was && as != key && w.images[as] != nil
	if was {
		h.filling = false
		w.used(h)
	}
	w.follow(t, key, was && (h.revoked || twin), w.m.Filled(key, as.Digest))
	if was && !h.revoked && !twin && as != key && w.images[key] == h {
		t.Fatalf("one content: %v is filled with %v, and not named by it", key, as)
	}
}

func (w *world) failed(t *rapid.T) {
	key := w.key(t)
	h := w.images[key]
	w.follow(t, key, h != nil && h.filling, w.m.Failed(key, "read error"))
}

func (w *world) open(t *rapid.T) {
	key, reader := w.key(t), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "reader")
	h, before := w.images[key], w.readers(key)
	w.follow(t, key, false, w.m.Open(key, reader))
	if h == nil || h.filling || h.revoked {
		if w.readers(key) != before {
			t.Fatalf("no damage: %v has a new reader", key)
		}
		return
	}
	h.readers[reader] = true
	w.used(h)
}

func (w *world) readers(key Key) int {
	for _, i := range w.m.Images() {
		if i.Key == key {
			return i.Readers
		}
	}
	return 0
}

func (w *world) close(t *rapid.T) {
	key, reader := w.key(t), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "reader")
	h := w.images[key]
	dies := false
	if h != nil && !h.filling && h.readers[reader] {
		delete(h.readers, reader)
		dies = h.revoked && len(h.readers) == 0
	}
	w.follow(t, key, dies, w.m.Close(key, reader))
}

func (w *world) await(t *rapid.T) {
	key := w.key(t)
	w.waiters++
	waiter := fmt.Sprint("w", w.waiters)
	if h := w.images[key]; h != nil && h.filling && !h.revoked {
		w.waiting[waiter] = h
	}
	w.follow(t, key, false, w.m.Await(key, waiter))
}

func (w *world) anyName(t *rapid.T) Name {
	return Name{Adapter: fmt.Sprint("a@", rapid.IntRange(1, 4).Draw(t, "name")), Layout: "bf16"}
}

func (w *world) name(t *rapid.T) {
	key := w.key(t)
	w.follow(t, key, false, w.m.Attach(key, w.anyName(t)))
}

func (w *world) forget(t *rapid.T) {
	name := w.anyName(t)
	h := w.names[name]
	delete(w.names, name)
	dies := h != nil
	for _, other := range w.names {
		dies = dies && other != h
	}
	var key Key
	if dies {
		for k, of := range w.images {
			if of == h {
				key = k
			}
		}
		h.revoked = true
		dies = !h.filling && len(h.readers) == 0
	}
	w.follow(t, key, dies, w.m.Forget(name, "deleted"))
}

// unname removes the names of an image that is freed or revoked.
func (w *world) unname(h *held) {
	for name, of := range w.names {
		if of == h {
			delete(w.names, name)
		}
	}
}

func (w *world) pin(t *rapid.T) {
	key := w.key(t)
	if h := w.images[key]; h != nil && !h.revoked {
		h.pinned = true
	}
	w.follow(t, key, false, w.m.Pin(key))
}

func (w *world) unpin(t *rapid.T) {
	key := w.key(t)
	if h := w.images[key]; h != nil && !h.revoked {
		h.pinned = false
	}
	w.follow(t, key, false, w.m.Unpin(key))
}

func (w *world) revoke(t *rapid.T) {
	key := w.key(t)
	h := w.images[key]
	dies := false
	if h != nil && !h.revoked {
		dies = !h.filling && len(h.readers) == 0
		h.revoked = true
		w.unname(h)
	}
	w.follow(t, key, dies, w.m.Revoke(key, "damaged"))
}

func (w *world) recovered(t *rapid.T) {
	key, bytes := w.key(t), int64(rapid.IntRange(0, 60).Draw(t, "bytes"))
	if w.images[key] != nil {
		t.Skip("there")
	}
	pinned := rapid.Bool().Draw(t, "pinned")
	h := &held{bytes: bytes, pinned: pinned, readers: make(map[string]bool)}
	w.used(h)
	w.images[key] = h
	w.follow(t, Key{}, false, w.m.Recovered(key, bytes, pinned))
}

func (w *world) resize(t *rapid.T) {
	w.budget = int64(rapid.IntRange(0, 120).Draw(t, "budget"))
	w.follow(t, Key{}, false, w.m.Resize(w.budget))
}

// check checks the state between events.
func (w *world) check(t *rapid.T) {
	var used, fixed int64
	for key, h := range w.images {
		if used += h.bytes; !h.mayGo() {
			fixed += h.bytes
		}
		if (w.m.State(key) == Revoked) != h.revoked {
			t.Fatalf("no damage: %v is %v, revoked %v", key, w.m.State(key), h.revoked)
		}
	}
	for i := range 4 {
		name := Name{Adapter: fmt.Sprint("a@", i+1), Layout: "bf16"}
		key, ok := w.m.Find(name)
		if h := w.names[name]; ok != (h != nil) || ok && (w.images[key] != h || h.revoked) {
			t.Fatalf("named: %v names %v, %v", name, key, ok)
		}
	}
	for waiter, h := range w.waiting {
		if !h.filling || h.revoked {
			t.Fatalf("proceed: %s still waits", waiter)
		}
	}
	u := w.m.Usage()
	if u.Used != used || len(w.m.Images()) != len(w.images) {
		t.Fatalf("ledger: %d bytes in %v, want %d in %d images", u.Used, w.m.Images(), used, len(w.images))
	}
	if used > w.budget && used != fixed {
		t.Fatalf("budget: %d of %d bytes used, and %d could go", used, w.budget, used-fixed)
	}
}

// TestIgnoredChangesNothing checks that an ignored event changes no image.
func TestIgnoredChangesNothing(t *testing.T) {
	key := Key{"d", "l"}
	m := New(10)
	m.Fill(key, 5, false)
	before := m.Images()
	for _, effects := range [][]Effect{m.Open(key, "r"), m.Close(key, "r"),
		m.Recovered(key, 7, true), m.Filled(Key{}, "d")} {
		if _, ok := effects[0].(Ignored); !ok || len(effects) != 1 {
			t.Errorf("%v, want ignored", effects)
		}
	}
	if got := m.Images(); !reflect.DeepEqual(got, before) {
		t.Errorf("%v, want %v", got, before)
	}
}
