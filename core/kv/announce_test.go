package kv

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// follower tracks the blocks known after applying announcements.
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

func fingerprintHash(n int) (h Hash) {
	binary.BigEndian.PutUint64(h[:], uint64(n))
	return h
}

// TestAnnouncerInvariants drives an announcer with random commits and evictions, and a follower
// with all announcements.
func TestAnnouncerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each, total := rapid.IntRange(1, 12).Draw(t, "each"), rapid.IntRange(0, 20).Draw(t, "total")
		a, f := NewAnnouncer(8*each, 8*total), follower{}
		held := map[int32]uint64{} // block -> fingerprint
		next := 0
		receive := func(t *rapid.T, n Announcement) {
			f.apply(n)
			if size := len(n.Evicted) + len(n.Committed); size > each || len(f) > total {
				t.Fatalf("budget: %d of %d blocks announced, %d of %d known to the follower", size, each, len(f), total)
			}
			for b := range f {
				if !slices.Contains(slices.Collect(maps.Values(held)), b) {
					t.Fatalf("subset: the follower knows %d, the replica holds %v", b, held)
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
					committed = append(committed, Committed{Block: b, Hash: fingerprintHash(next)})
				}
				a.Apply(evicted, committed)
			},
			"recommit": func(t *rapid.T) { // the content of one block moves to another
				from, to := rapid.Int32Range(0, 15).Draw(t, "from"), rapid.Int32Range(16, 18).Draw(t, "to")
				h, ok := held[from]
				if _, taken := held[to]; taken || !ok {
					return
				}
				delete(held, from)
				held[to] = h
				a.Apply([]int32{from}, []Committed{{Block: to, Hash: fingerprintHash(int(h))}})
			},
			"grow": func(t *rapid.T) {
				size := rapid.IntRange(0, 25).Draw(t, "size")
				total = max(total, size)
				a.Grow(8 * size)
			},
			"announce": func(t *rapid.T) {
				room := a.Room()
				if n, ok := a.Next(); ok {
					receive(t, n)
				}
				if room > 0 && len(held) <= total && a.Pending() {
					t.Fatalf("room: %d changes had room, and some are left", room)
				}
			},
			"snapshot": func(t *rapid.T) { receive(t, a.Snapshot()) },
			"drain": func(t *rapid.T) {
				for range 1000 {
					n, ok := a.Next()
					if !ok {
						if want := min(len(held), total); len(f) != want {
							t.Fatalf("complete: the follower knows %d blocks, want %d", len(f), want)
						}
						return
					}
					receive(t, n)
				}
				t.Fatalf("complete: 1000 announcements and still more")
			},
		})
	})
}

func TestAnnouncerSendsNewestCommitsFirst(t *testing.T) {
	commit := func(a *Announcer, from, to int) {
		for n := from; n <= to; n++ {
			a.Apply(nil, []Committed{{Block: int32(n), Hash: fingerprintHash(n)}})
		}
	}
	for name, tc := range map[string]struct {
		each, total int
		then        func(*Announcer)
		want        []Announcement
	}{
		"snapshot first, then the rest": {2, 9, func(*Announcer) {}, []Announcement{
			{Snapshot: true, Committed: []uint64{4, 5}}, {Committed: []uint64{3, 2}}, {Committed: []uint64{1}},
		}},
		"newer commits replace older ones": {4, 3, func(a *Announcer) {
			a.Next()
			commit(a, 6, 8)
		}, []Announcement{{Evicted: []uint64{3, 4}, Committed: []uint64{8, 7}},
			{Evicted: []uint64{5}, Committed: []uint64{6}}}},
		"a block that was replaced waits behind older ones no longer": {4, 3, func(a *Announcer) {
			a.Next()
			commit(a, 6, 6)
			a.Next()
			a.Grow(8 * 6)
		}, []Announcement{{Committed: []uint64{3, 2, 1}}}},
		"evictions before commits": {2, 9, func(a *Announcer) {
			a.Next()
			a.Next()
			a.Apply([]int32{5, 2}, nil)
		}, []Announcement{{Evicted: []uint64{5, 2}}, {Committed: []uint64{1}}}},
		"too many evictions cause a snapshot": {2, 9, func(a *Announcer) {
			a.Next()
			a.Next()
			a.Apply([]int32{5, 4, 3}, nil)
		}, []Announcement{{Snapshot: true, Committed: []uint64{1, 2}}}},
		"unannounced blocks are not evicted": {2, 2, func(a *Announcer) {
			a.Next()
			a.Apply([]int32{1, 2, 3}, nil)
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
			return x.Snapshot == y.Snapshot && slices.Equal(x.Evicted, y.Evicted) &&
				slices.Equal(x.Committed, y.Committed)
		}) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// BenchmarkAnnounce records 32 commits and 32 evictions and announces them, with 10,000 blocks
// held.
func BenchmarkAnnounce(b *testing.B) {
	a := NewAnnouncer(1<<20, 1<<20)
	const held = 10_000
	for i := range held {
		a.Apply(nil, []Committed{{Block: int32(i), Hash: fingerprintHash(i)}})
	}
	a.Next()
	committed := make([]Committed, 32)
	for n := held; b.Loop(); {
		for i := range committed {
			committed[i] = Committed{Block: int32(n % held), Hash: fingerprintHash(n)}
			n++
		}
		a.Apply(nil, committed)
		a.Next()
	}
}
