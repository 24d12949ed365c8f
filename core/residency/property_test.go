package residency

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

const totalPages = 12

// world is a device on which the invariants of doc.go are checked by name.
type world struct {
	*rapid.T
	m      *Machine
	ledger *hbm.Ledger
	now    time.Time

	memory  map[uint64]Copy   // copies in memory
	loads   []Load            // loads in flight
	frees   []uint64          // releases in flight
	uses    map[string]uint64 // by lease: the copy that it uses
	asked   map[string]Source
	waiting map[string]bool // leases that were granted and wait for their weights
	loaded  map[uint64]bool // copies whose load was started
	stuck   map[string]bool // contents of copies that could not be freed, or stay after a crash

	readers map[string]uint64    // readers that have not ended: the copy of each
	revoked map[string]bool      // those that must end
	leaving map[uint64]time.Time // copies that leave: since when
}

// TestInvariants checks the invariants of doc.go with random events.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, now: time.Unix(1e9, 0), ledger: hbm.NewLedger(totalPages * hbm.PageBytes)}
		w.memory, w.uses, w.asked = make(map[uint64]Copy), make(map[string]uint64), make(map[string]Source)
		w.waiting, w.loaded = make(map[string]bool), make(map[uint64]bool)
		w.stuck, w.readers = make(map[string]bool), make(map[string]uint64)
		w.revoked, w.leaving = make(map[string]bool), make(map[uint64]time.Time)
		w.m = New(w.ledger, nil, 0, w.now)
		t.Repeat(map[string]func(*rapid.T){
			"want": func(*rapid.T) { w.want() }, "grant": func(*rapid.T) { w.grant() },
			"grant more": func(*rapid.T) { w.grant() }, "load": func(*rapid.T) { w.endLoad() },
			"load more": func(*rapid.T) { w.endLoad() }, "free": func(*rapid.T) { w.endFree() },
			"gone": func(*rapid.T) { w.gone() }, "level": func(*rapid.T) { w.level() },
			"evict": func(*rapid.T) {
				number := rapid.Uint64Range(1, w.m.Last()+1).Draw(t, "copy")
				w.do(func() []Effect { return w.m.Evict(number, "", w.now) })
			},
			"read": func(*rapid.T) { w.read() }, "read more": func(*rapid.T) { w.read() },
			"read ended": func(*rapid.T) { w.endRead() },
			"tick":       func(*rapid.T) { w.tick() },
			"make room":  func(*rapid.T) { w.makeRoom() },
			"lost": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					w.do(func() []Effect { return w.m.DropAll("the device is lost", w.now) })
					for _, r := range slices.Sorted(maps.Keys(w.readers)) {
						if !w.revoked[r] {
							w.Fatalf("in time: %s reads a device that is lost", r)
						}
					}
				}
			},
			"late": func(*rapid.T) { // results of an earlier incarnation
				number := w.m.Last() + 7
				w.do(func() []Effect { return w.m.Loaded(number, Content{Revision: "r0"}, w.now) })
				w.do(func() []Effect { return w.m.Released(number, w.now) })
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					w.restart()
				}
			},
			"": func(*rapid.T) { w.now = w.now.Add(time.Second) },
		})
	})
}

var leases = []string{"a", "b", "c", "d"}

// contentOf is the content of the files of a model. Two models have the same.
func contentOf(s Source) string {
	return map[string]string{"m": "r0", "n": "r0", "o": "r1"}[s.Model]
}

func (w *world) want() {
	lease := rapid.SampledFrom(leases).Draw(w.T, "lease")
	if w.uses[lease] != 0 {
		return
	}
	s := Source{Model: rapid.SampledFrom([]string{"m", "n", "o"}).Draw(w.T, "model"), Layout: "f32"}
	s.Bytes = hbm.PageBytes * int64(len(contentOf(s))+int(contentOf(s)[1]-'0'))
	if rapid.Bool().Draw(w.T, "expected") {
		s.Expected = contentOf(s)
	}
	if rapid.Bool().Draw(w.T, "checked") {
		s.Revision = contentOf(s)
	}
	w.asked[lease] = s
	w.uses[lease] = w.m.Want(lease, s, w.now)
	w.check()
}

// grant grants a lease its weights if there is room.
func (w *world) grant() {
	lease := rapid.SampledFrom(leases).Draw(w.T, "lease")
	c, _ := w.m.Copy(w.uses[lease])
	user := slices.IndexFunc(c.Users, func(u User) bool { return u.Lease == lease })
	if user < 0 || c.State == Wanted && c.Pages() > int(w.ledger.Free()/hbm.PageBytes) || w.waiting[lease] {
		return
	}
	w.waiting[lease] = true
	w.do(func() []Effect { return w.m.Grant(lease, c.Number, w.now) })
}

func (w *world) endLoad() {
	if len(w.loads) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.loads)-1).Draw(w.T, "load")
	l := w.loads[i]
	w.loads = slices.Delete(w.loads, i, i+1)
	if rapid.IntRange(0, 3).Draw(w.T, "fails") == 0 {
		free, others := w.ledger.Free(), len(w.m.Copies())
		w.do(func() []Effect { return w.m.LoadFailed(l.Copy, w.now) })
		if back := w.ledger.Free() - free; back < l.Source.Bytes || len(w.m.Copies()) != others-1 {
			w.Fatalf("gives back: %d of %d bytes, %d of %d copies left", back, l.Source.Bytes, len(w.m.Copies()),
				others)
		}
		return
	}
	w.memory[l.Copy] = Copy{Number: l.Copy, Source: l.Source, Content: Content{Revision: contentOf(l.Source)}}
	w.do(func() []Effect { return w.m.Loaded(l.Copy, w.memory[l.Copy].Content, w.now) })
}

func (w *world) endFree() {
	if len(w.frees) == 0 {
		return
	}
	n := w.frees[0]
	w.frees = w.frees[1:]
	if rapid.IntRange(0, 3).Draw(w.T, "fails") == 0 {
		w.stuck[w.memory[n].Content.Revision] = true
		w.do(func() []Effect { return w.m.ReleaseFailed(n, w.now) })
		return
	}
	delete(w.memory, n)
	w.do(func() []Effect { return w.m.Released(n, w.now) })
}

func (w *world) gone() {
	lease := rapid.SampledFrom(leases).Draw(w.T, "lease")
	number := w.uses[lease]
	if number == 0 || w.waiting[lease] {
		return
	}
	delete(w.uses, lease)
	fate := Fate(rapid.IntRange(0, int(Park)).Draw(w.T, "fate"))
	w.do(func() []Effect { return w.m.Gone(lease, number, fate, w.now) })
}

func (w *world) level() {
	lease := rapid.SampledFrom(leases).Draw(w.T, "lease")
	if c, _ := w.m.Copy(w.uses[lease]); c.State == Resident && !w.waiting[lease] {
		if rapid.Bool().Draw(w.T, "serves") {
			w.do(func() []Effect { return w.m.Activate(lease, c.Number, w.now) })
			if c, _ := w.m.Copy(c.Number); c.Level() != Active {
				w.Fatalf("level: a copy that serves %s is %s", lease, c.Level())
			}
			return
		}
		w.do(func() []Effect { return w.m.Standby(lease, c.Number, w.now) })
	}
}

// read begins to read a copy, or one that is not there.
func (w *world) read() {
	reader := rapid.SampledFrom([]string{"p", "q", "r"}).Draw(w.T, "reader")
	number := rapid.Uint64Range(1, w.m.Last()+1).Draw(w.T, "copy")
	if w.readers[reader] != 0 {
		return
	}
	before, _ := w.m.Copy(number)
	w.do(func() []Effect {
		effects := w.m.Read(reader, number, w.now)
		if len(effects) == 0 {
			w.readers[reader] = number
		}
		return effects
	})
	if w.readers[reader] != 0 && before.State != Resident {
		w.Fatalf("being read: a copy that is %s gets a reader", before.State)
	}
}

func (w *world) endRead() {
	all := slices.Sorted(maps.Keys(w.readers))
	if len(all) == 0 {
		return
	}
	reader := rapid.SampledFrom(all).Draw(w.T, "reader")
	number := w.readers[reader]
	delete(w.readers, reader)
	delete(w.revoked, reader)
	w.do(func() []Effect { return w.m.ReadEnded(reader, number, w.now) })
}

func (w *world) revoke(e Revoke) {
	found := false
	for r, number := range w.readers {
		if number == e.Copy {
			found = found || !w.revoked[r]
			w.revoked[r] = true
		}
	}
	if !found {
		w.Fatalf("being read: copy %d has no reader to revoke", e.Copy)
	}
}

func (w *world) tick() {
	w.do(func() []Effect { return w.m.Tick(w.now) })
	for _, r := range slices.Sorted(maps.Keys(w.readers)) {
		if since, leaves := w.leaving[w.readers[r]]; leaves && w.now.Sub(since) >= readGrace && !w.revoked[r] {
			w.Fatalf("in time: copy %d has left for %v, and %s still reads it", w.readers[r], w.now.Sub(since), r)
		}
	}
}

// checkReaders checks the copies that are read or leave.
func (w *world) checkReaders() {
	leaving := make(map[uint64]time.Time)
	for _, c := range w.m.Copies() {
		for _, r := range c.Readers {
			if w.readers[r] != c.Number {
				w.Fatalf("being read: copy %d counts %s, which reads %d", c.Number, r, w.readers[r])
			}
		}
		if c.State == Leaving {
			if leaving[c.Number] = w.now; !w.leaving[c.Number].IsZero() {
				leaving[c.Number] = w.leaving[c.Number]
			}
			if len(c.Readers) == 0 || len(c.Users) > 0 {
				w.Fatalf("being read: copy %d leaves with readers %v and users %v", c.Number, c.Readers, c.Users)
			}
		}
	}
	w.leaving = leaving
	for _, r := range slices.Sorted(maps.Keys(w.readers)) {
		if c, _ := w.m.Copy(w.readers[r]); !slices.Contains(c.Readers, r) {
			w.Fatalf("being read: %s reads copy %d, which counts %v", r, w.readers[r], c.Readers)
		}
	}
}

func (w *world) makeRoom() {
	before := w.m.Evictable()
	need := rapid.IntRange(1, totalPages).Draw(w.T, "pages")
	effects := w.do(func() []Effect {
		return w.m.MakeRoom(need, int(w.ledger.Free()/hbm.PageBytes), false, "", w.now)
	})
	for i, c := range before {
		if len(effects) == 0 {
			break
		}
		if now, _ := w.m.Copy(c.Number); len(c.Readers) > 0 && now.State == Leaving {
			continue
		}
		if r, ok := effects[0].(Release); !ok || r.Copy != c.Number {
			w.Fatalf("in order: %v after %d of %v", effects, i, before)
		}
		effects = effects[1:]
	}
	for i := 1; i < len(before); i++ {
		a, b := before[i-1], before[i]
		aRead, bRead := len(a.Readers) > 0, len(b.Readers) > 0
		if b.Spare && !a.Spare || a.Spare == b.Spare && (aRead && !bRead || aRead == bRead && b.Used.Before(a.Used)) {
			w.Fatalf("in order: %v", before)
		}
	}
}

// restart builds a new machine from what is in memory. Loads in flight are cancelled and leave
// nothing; releases end first.
func (w *world) restart() {
	for _, n := range w.frees {
		delete(w.memory, n)
	}
	for number := range w.leaving {
		w.stuck[w.memory[number].Content.Revision] = true
	}
	w.loads, w.frees = nil, nil
	clear(w.revoked)
	clear(w.waiting)
	w.ledger = hbm.NewLedger(totalPages * hbm.PageBytes)
	var copies []Copy
	for n := range w.m.Last() + 1 {
		if c, ok := w.memory[n]; ok {
			for _, r := range slices.Sorted(maps.Keys(w.readers)) {
				if w.readers[r] == n {
					c.Readers = append(c.Readers, r)
				}
			}
			copies = append(copies, c)
		}
	}
	w.m = New(w.ledger, copies, w.m.Last(), w.now)
	for _, lease := range leases {
		if n := w.uses[lease]; n == 0 || w.memory[n].Number == 0 {
			delete(w.uses, lease)
			continue
		}
		w.m.Use(lease, w.uses[lease], w.now)
	}
	w.check()
}

// do carries out one event and checks its effects.
func (w *world) do(event func() []Effect) []Effect {
	before := fmt.Sprintf("%+v %d", w.m.Copies(), w.ledger.Free())
	effects := event()
	for _, effect := range effects {
		switch e := effect.(type) {
		case Load:
			if w.loaded[e.Copy] {
				w.Fatalf("one load: copy %d is loaded twice", e.Copy)
			}
			w.loaded[e.Copy] = true
			w.loads = append(w.loads, e)
		case Release:
			if c, _ := w.m.Copy(e.Copy); len(c.Users) > 0 {
				w.Fatalf("in use: copy %d is released", e.Copy)
			}
			for _, number := range w.readers {
				if number == e.Copy {
					w.Fatalf("being read: copy %d is released", e.Copy)
				}
			}
			w.frees = append(w.frees, e.Copy)
		case Revoke:
			w.revoke(e)
		case Ready:
			if got, want := w.memory[e.Copy].Content.Revision, contentOf(w.asked[e.Lease]); got != want {
				w.Fatalf("right content: %s gets %q instead of %q", e.Lease, got, want)
			}
			delete(w.waiting, e.Lease)
			w.uses[e.Lease] = e.Copy
		case Failed:
			delete(w.waiting, e.Lease)
			delete(w.uses, e.Lease)
		case Ignored:
			if after := fmt.Sprintf("%+v %d", w.m.Copies(), w.ledger.Free()); len(effects) > 1 || after != before {
				w.Fatalf("ignored: %v, and something changed", effects)
			}
		}
	}
	w.check()
	return effects
}

// check checks the invariants that hold between events.
func (w *world) check() {
	used := make(map[string]int)
	for _, l := range w.ledger.Leases() {
		used[l.Owner] = len(l.Pages)
	}
	resident := make(map[string]bool)
	for _, c := range w.m.Copies() {
		want := c.Pages()
		if c.State == Wanted {
			want = 0
		}
		if used[c.Owner()] != want {
			w.Fatalf("ledger: copy %d is %s and has %d pages", c.Number, c.State, used[c.Owner()])
		}
		delete(used, c.Owner())
		if c.State == Resident {
			if resident[c.Content.Revision] && !w.stuck[c.Content.Revision] {
				w.Fatalf("once: %s is on the device twice", c.Content.Revision)
			}
			resident[c.Content.Revision] = true
		}
		for _, u := range c.Users {
			if w.uses[u.Lease] != c.Number {
				w.Fatalf("in use: copy %d counts %s, which uses %d", c.Number, u.Lease, w.uses[u.Lease])
			}
		}
	}
	if len(used) > 0 {
		w.Fatalf("ledger: leases of no copy: %v", used)
	}
	w.checkWaits()
	w.checkReaders()
}

// checkWaits checks that a load is in flight for every lease that waits.
func (w *world) checkWaits() {
	for _, lease := range leases {
		loading := slices.ContainsFunc(w.loads, func(l Load) bool { return l.Copy == w.uses[lease] })
		if w.waiting[lease] && !loading {
			w.Fatalf("one load: %s waits for copy %d, which is not being loaded", lease, w.uses[lease])
		}
	}
}
