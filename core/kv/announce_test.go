package kv

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// follower applies announcements.
type follower map[uint64]bool

func (f follower) apply(n Announcement) {
	if n.Snapshot {
		clear(f)
	}
	for _, b := range n.Evicted {
		delete(f, b)
	}
	for _, b := range n.Committed {
		f[b] = true
	}
}

func shortHash(n int) (h Hash) {
	binary.BigEndian.PutUint64(h[:], uint64(n))
	return h
}

// TestAnnouncer drives an announcer with random commits and evictions, and a follower with all that it announces.
func TestAnnouncer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each, total := rapid.IntRange(1, 12).Draw(t, "each"), rapid.IntRange(0, 20).Draw(t, "total")
		a, f := NewAnnouncer(8*each, 8*total), follower{}
		held := map[int32]uint64{} // block -> what it holds
		next := 0
		hear := func(t *rapid.T, n Announcement) {
			f.apply(n)
			if size := len(n.Evicted) + len(n.Committed); size > each || len(f) > total {
				t.Fatalf("budget: %d blocks announced of %d, %d believed of %d", size, each, len(f), total)
			}
			for b := range f {
				if !slices.Contains(slices.Collect(maps.Values(held)), b) {
					t.Fatalf("subset: %d is believed, %v are held", b, held)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				block := rapid.Int32Range(0, 15)
				var committed []Committed
				evicted := rapid.SliceOfNDistinct(block, 0, 6, rapid.ID[int32]).Draw(t, "evicted")
				for _, b := range evicted {
					delete(held, b)
				}
				for _, b := range rapid.SliceOfNDistinct(block, 0, 6, rapid.ID[int32]).Draw(t, "committed") {
					if _, ok := held[b]; ok {
						continue
					}
					next++
					held[b] = uint64(next)
					committed = append(committed, Committed{Block: b, Hash: shortHash(next)})
				}
				a.Changes(evicted, committed)
			},
			"recommit": func(t *rapid.T) { // what one block held moves to another
				from, to := rapid.Int32Range(0, 15).Draw(t, "from"), rapid.Int32Range(16, 18).Draw(t, "to")
				h, ok := held[from]
				if _, taken := held[to]; taken || !ok {
					return
				}
				delete(held, from)
				held[to] = h
				a.Changes([]int32{from}, []Committed{{Block: to, Hash: shortHash(int(h))}})
			},
			"grow": func(t *rapid.T) {
				size := rapid.IntRange(0, 25).Draw(t, "size")
				total = max(total, size)
				a.Grow(8 * size)
			},
			"announce": func(t *rapid.T) {
				if n, ok := a.Next(); ok {
					hear(t, n)
				}
			},
			"snapshot": func(t *rapid.T) { hear(t, a.Snapshot()) },
			"quiet": func(t *rapid.T) {
				for range 1000 {
					n, ok := a.Next()
					if !ok {
						if want := min(len(held), total); len(f) != want {
							t.Fatalf("complete: %d are believed, not %d", len(f), want)
						}
						return
					}
					hear(t, n)
				}
				t.Fatalf("complete: announcements do not end")
			},
		})
	})
}

func TestNewestCommitsAreAnnounced(t *testing.T) {
	commit := func(a *Announcer, from, to int) {
		for n := from; n <= to; n++ {
			a.Changes(nil, []Committed{{Block: int32(n), Hash: shortHash(n)}})
		}
	}
	for name, tc := range map[string]struct {
		each, total int
		then        func(*Announcer)
		want        []Announcement
	}{
		"a snapshot comes first, the rest follows": {2, 9, func(*Announcer) {}, []Announcement{
			{Snapshot: true, Committed: []uint64{4, 5}}, {Committed: []uint64{3, 2}}, {Committed: []uint64{1}},
		}},
		"newer ones take the place of older ones": {4, 3, func(a *Announcer) {
			a.Next()
			commit(a, 6, 8)
		}, []Announcement{{Evicted: []uint64{3, 4}, Committed: []uint64{8, 7}}, {Evicted: []uint64{5}, Committed: []uint64{6}}}},
		"evictions first": {2, 9, func(a *Announcer) {
			a.Next()
			a.Next()
			a.Changes([]int32{5, 2}, nil)
		}, []Announcement{{Evicted: []uint64{5, 2}}, {Committed: []uint64{1}}}},
		"too many evictions": {2, 9, func(a *Announcer) {
			a.Next()
			a.Next()
			a.Changes([]int32{5, 4, 3}, nil)
		}, []Announcement{{Snapshot: true, Committed: []uint64{1, 2}}}},
		"what was never announced is not evicted": {2, 2, func(a *Announcer) {
			a.Next()
			a.Changes([]int32{1, 2, 3}, nil)
		}, nil},
		"no budget": {0, 9, func(*Announcer) {}, []Announcement{{Snapshot: true}}},
	} {
		a := NewAnnouncer(8*tc.each, 8*tc.total)
		commit(a, 1, 5)
		tc.then(a)
		var got []Announcement
		for n, ok := a.Next(); ok; n, ok = a.Next() {
			got = append(got, n)
		}
		if !slices.EqualFunc(got, tc.want, func(x, y Announcement) bool {
			return x.Snapshot == y.Snapshot && slices.Equal(x.Evicted, y.Evicted) && slices.Equal(x.Committed, y.Committed)
		}) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// BenchmarkAnnounce takes 32 commits and 32 evictions in and announces them, with 10,000 blocks held.
func BenchmarkAnnounce(b *testing.B) {
	a := NewAnnouncer(1<<20, 1<<20)
	const held = 10_000
	for i := range held {
		a.Changes(nil, []Committed{{Block: int32(i), Hash: shortHash(i)}})
	}
	a.Next()
	committed := make([]Committed, 32)
	for n := held; b.Loop(); {
		for i := range committed {
			committed[i] = Committed{Block: int32(n % held), Hash: shortHash(n)}
			n++
		}
		a.Changes(nil, committed)
		a.Next()
	}
}
