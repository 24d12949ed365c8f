package kv

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// poolModel is a naive pool: the readers and content of each block, and the cached blocks in
// release order.
type poolModel struct {
	refs         []int
	hash         map[int32]Hash
	cached       []int32
	offloading   map[int32]bool // block being offloaded -> used since; each holds one reference
	backed       map[int32]bool
	pins         map[Hash]bool
	step         int
	releasedStep map[int32]int // cached block -> step of its release
}

// release appends a block to the cached ones.
func (m *poolModel) release(b int32) {
	m.cached = append(m.cached, b)
	m.releasedStep[b] = m.step
}

// victim returns the next cached block to evict.
func (m *poolModel) victim() int32 {
	for _, b := range m.cached {
		if !m.pins[m.hash[b]] {
			return b
		}
	}
	return m.cached[0]
}

func (m *poolModel) blockOf(h Hash) (int32, bool) {
	for b, held := range m.hash {
		if held == h {
			return b, true
		}
	}
	return 0, false
}

func testHash(n int) Hash {
	var h Hash
	binary.LittleEndian.PutUint64(h[:], uint64(n))
	return h
}

// TestPoolAgainstModel drives a pool and its model with the same random calls.
func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 6).Draw(t, "blocks")
		p, m := NewPool(size, 16), &poolModel{refs: make([]int, maxTestSize), hash: map[int32]Hash{},
			offloading: map[int32]bool{}, backed: map[int32]bool{}, releasedStep: map[int32]int{}}
		known := map[int32]Hash{} // according to Changes
		var tables [][]int32
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				b, ok := p.Allocate()
				if full := !slices.Contains(m.refs[:size], 0); ok == full {
					t.Fatalf("allocate: %v, all referenced: %v", ok, full)
				}
				if !ok {
					return
				}
				if int(b) >= size {
					t.Fatalf("draining: allocated block %d of %d", b, size)
				}
				if m.refs[b] != 0 {
					t.Fatalf("pinned: allocated block %d, which has readers", b)
				}
				if _, held := m.hash[b]; held {
					if m.victim() != b || countEmpty(m, size) > 0 {
						t.Fatalf("lru: %d was evicted, cached %v, %d empty, pinned %v", b, m.cached,
							countEmpty(m, size), m.pins)
					}
					m.cached = slices.DeleteFunc(m.cached, func(c int32) bool { return c == b })
					delete(m.hash, b)
					delete(m.backed, b)
				}
				m.refs[b] = 1
				tables = append(tables, []int32{b})
			},
			"commit": func(t *rapid.T) {
				if len(tables) == 0 {
					return
				}
				b, h := rapid.SampledFrom(tables).Draw(t, "table")[0], testHash(rapid.IntRange(1, 5).Draw(t, "hash"))
				_, other := m.blockOf(h)
				_, own := m.hash[b]
				p.Commit(b, h)
				if !other && !own && int(b) < size {
					m.hash[b] = h
				}
			},
			"acquire": func(t *rapid.T) {
				var hashes []Hash
				for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 5), 0, 3, rapid.ID[int]).Draw(t, "hashes") {
					hashes = append(hashes, testHash(n))
				}
				free := p.FreeWithout(hashes)
				var want []int32
				for _, h := range hashes {
					b, ok := m.blockOf(h)
					if !ok {
						break
					}
					want = append(want, b)
				}
				got := p.Acquire(hashes)
				if !slices.Equal(got, want) {
					t.Fatalf("acquired %v, want %v", got, want)
				}
				for _, b := range got {
					if _, leaves := m.offloading[b]; leaves {
						m.offloading[b] = true
					}
					m.refs[b]++
					m.cached = slices.DeleteFunc(m.cached, func(c int32) bool { return c == b })
				}
				if p.Free() != free {
					t.Fatalf("%d blocks free after Acquire, FreeWithout said %d", p.Free(), free)
				}
				if len(got) > 0 {
					tables = append(tables, got)
				}
			},
			"release": func(t *rapid.T) {
				if len(tables) == 0 {
					return
				}
				i := rapid.IntRange(0, len(tables)-1).Draw(t, "table")
				p.Release(tables[i])
				for _, b := range slices.Backward(tables[i]) {
					if m.refs[b]--; m.refs[b] == 0 {
						if _, ok := m.hash[b]; ok {
							m.release(b)
						}
					}
				}
				tables = slices.Delete(tables, i, i+1)
			},
			"resize": func(t *rapid.T) {
				size = rapid.IntRange(0, maxTestSize).Draw(t, "size")
				p.Resize(size)
				m.cached = slices.DeleteFunc(m.cached, func(b int32) bool { return int(b) >= size })
				for b := range m.hash {
					if int(b) >= size {
						delete(m.hash, b)
						delete(m.backed, b)
					}
				}
			},
			"select offload": func(t *rapid.T) {
				watermark, burst := rapid.SampledFrom([]float64{0, 0.5, 0.9}).Draw(t, "watermark"),
					rapid.IntRange(1, 4).Draw(t, "burst")
				above, spare, most := size-countEmpty(m, size)-len(m.offloading)-int(watermark*float64(size)), 0,
					burst-len(m.offloading)
				var pinned, unread, want []int32
				for _, b := range m.cached {
					switch pins := m.pins[m.hash[b]]; {
					case m.backed[b] && !pins:
						spare++
					case m.backed[b]:
					case pins:
						pinned = append(pinned, b)
					default:
						unread = append(unread, b)
					}
				}
				want = append(want, pinned[:max(0, min(len(pinned), max(most, size/pinnedShare-len(m.offloading))))]...)
				want = append(want, unread[:max(0, min(len(unread), above-spare, most-len(want)))]...)
				for b, refs := range m.refs {
					_, leaves := m.offloading[int32(b)]
					if refs > 0 && m.hash[int32(b)] != (Hash{}) && !m.backed[int32(b)] && !leaves &&
						len(want) < min(above-len(m.backed), most) {
						want = append(want, int32(b))
					}
				}
				m.startOffload(t, p.SelectOffload(watermark, burst), want)
			},
			"claim exclusive": func(t *rapid.T) {
				if len(tables) == 0 {
					return
				}
				b := rapid.SampledFrom(tables).Draw(t, "table")[0]
				readers := m.refs[b]
				if _, leaves := m.offloading[b]; leaves {
					readers--
				}
				_, held := m.hash[b]
				if got := p.ClaimExclusive(b); got != (held && readers == 1) {
					t.Fatalf("claim of a block with %d readers (committed: %v) returned %v", readers, held, got)
				} else if got {
					delete(m.hash, b)
					delete(m.backed, b)
				}
			},
			"forget": func(t *rapid.T) {
				if len(tables) == 0 {
					return
				}
				b := rapid.SampledFrom(tables).Draw(t, "table")[0]
				_, held := m.hash[b]
				if got := p.Forget(b); got != held {
					t.Fatalf("forget of a block that has a hash: %v, is %v", held, got)
				}
				delete(m.hash, b)
				delete(m.backed, b)
			},
			"tick": func(*rapid.T) { p.Tick(); m.step++ },
			"select idle": func(t *rapid.T) {
				steps, burst := rapid.IntRange(0, 3).Draw(t, "steps"), rapid.IntRange(1, 4).Draw(t, "burst")
				var want []int32
				for _, b := range m.cached {
					if !m.backed[b] && !m.pins[m.hash[b]] && m.step-m.releasedStep[b] >= steps {
						want = append(want, b)
					}
				}
				m.startOffload(t, p.SelectIdle(uint64(steps), burst),
					want[:max(0, min(len(want), burst-len(m.offloading)))])
			},
			"pin": func(t *rapid.T) {
				pins := map[Hash]bool{}
				for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 5), 0, 3, rapid.ID[int]).Draw(t, "hashes") {
					pins[testHash(n)] = true
				}
				p.SetPins(pins)
				for _, b := range slices.Sorted(slices.Values(m.cached)) {
					if h := m.hash[b]; m.pins[h] != pins[h] {
						m.cached = slices.DeleteFunc(m.cached, func(c int32) bool { return c == b })
						m.release(b)
					}
				}
				m.pins = pins
			},
			"flush": func(t *rapid.T) {
				n := 0
				m.cached = slices.DeleteFunc(m.cached, func(b int32) bool {
					if m.pins[m.hash[b]] {
						return false
					}
					delete(m.hash, b)
					delete(m.backed, b)
					n++
					return true
				})
				if got := p.Flush(); got != n {
					t.Fatalf("flush: %d blocks, want %d", got, n)
				}
			},
			"offload done": func(t *rapid.T) {
				if len(m.offloading) == 0 {
					return
				}
				b, below := slices.Min(slices.Collect(maps.Keys(m.offloading))), rapid.Bool().Draw(t, "stored")
				_, held := m.hash[b]
				wanted := m.offloading[b]
				p.OffloadDone(b, below)
				delete(m.offloading, b)
				if below && held {
					m.backed[b] = true
				}
				switch m.refs[b]--; {
				case m.refs[b] > 0 || !held:
				case below && !wanted && !m.pins[m.hash[b]]:
					m.cached = slices.Insert(m.cached, 0, b)
				default:
					m.release(b)
				}
			},
			"": func(t *rapid.T) {
				referenced, leaving, end := 0, 0, size
				for b, n := range m.refs {
					switch {
					case n > 0 && b < size:
						referenced++
					case n > 0:
						leaving, end = leaving+1, b+1
					}
				}
				if n, last := p.Draining(); n != leaving || last != end {
					t.Fatalf("draining: %d blocks up to %d, want %d up to %d", n, last, leaving, end)
				}
				s := p.Stats()
				if s.Free+referenced != size || s.Cached != len(m.cached) ||
					s.Free != len(m.cached)+countEmpty(m, size) || s.Blocks != size {
					t.Fatalf("conservation: %+v, %d referenced, cached %v", s, referenced, m.cached)
				}
				evicted, committed := p.Changes()
				for _, b := range evicted {
					delete(known, b)
				}
				for _, c := range committed {
					known[c.Block] = c.Hash
				}
				if len(known) != len(m.hash) {
					t.Fatalf("Changes add up to %v, the pool holds %v", known, m.hash)
				}
				for b, h := range m.hash {
					if known[b] != h {
						t.Fatalf("Changes add up to %v, the pool holds %v", known, m.hash)
					}
				}
			},
		})
	})
}

// startOffload records selected blocks, which must be the wanted ones.
func (m *poolModel) startOffload(t *rapid.T, all []Committed, want []int32) {
	var got []int32
	for _, c := range all {
		if got = append(got, c.Block); c.Hash != m.hash[c.Block] {
			t.Fatalf("offload: %v, which holds %v", c, m.hash[c.Block])
		}
		m.offloading[c.Block] = false
		m.refs[c.Block]++
		m.cached = slices.DeleteFunc(m.cached, func(b int32) bool { return b == c.Block })
	}
	if !slices.Equal(got, want) {
		t.Fatalf("offload: %v, want %v", got, want)
	}
}

// maxTestSize is the largest pool size in the test.
const maxTestSize = 8

func countEmpty(m *poolModel, size int) (n int) {
	for b, refs := range m.refs[:size] {
		if _, held := m.hash[int32(b)]; refs == 0 && !held {
			n++
		}
	}
	return n
}

func TestEvictsLeastRecentlyReleased(t *testing.T) {
	p := NewPool(3, 16)
	for i := range 3 {
		b, _ := p.Allocate()
		p.Commit(b, testHash(i))
		p.Release([]int32{b})
	}
	p.Release(p.Acquire([]Hash{testHash(0)})) // 1 is now the oldest
	if _, ok := p.Allocate(); !ok || p.Match([]Hash{testHash(0)}) != 1 || p.Match([]Hash{testHash(1)}) != 0 {
		t.Fatal("evicted a block other than the least recently released")
	}
}

func TestEvictsTailOfTableBeforeHead(t *testing.T) {
	p := NewPool(2, 16)
	a, _ := p.Allocate()
	b, _ := p.Allocate()
	p.Commit(a, testHash(1))
	p.Commit(b, testHash(2))
	p.Release([]int32{a, b})
	p.Allocate()
	if got := p.Match([]Hash{testHash(1), testHash(2)}); got != 1 {
		t.Fatalf("%d blocks of the prefix are left, want 1", got)
	}
}

func TestPoolRecover(t *testing.T) {
	p := NewPool(2, 16)
	for _, tc := range []struct {
		block int32
		hash  int
		want  bool
	}{{1, 7, true}, {1, 8, false}, {0, 7, false}, {2, 9, false}, {-1, 9, false}} {
		if got := p.Recover(tc.block, testHash(tc.hash)); got != tc.want {
			t.Errorf("Recover(%d, hash %d): %v", tc.block, tc.hash, got)
		}
	}
	if got := p.Acquire([]Hash{testHash(7)}); !slices.Equal(got, []int32{1}) {
		t.Errorf("acquired %v", got)
	}
	if evicted, committed := p.Changes(); evicted != nil || committed != nil {
		t.Error("Changes lists recovered blocks")
	}
}

func TestHashesDependOnModelAdapterAndTokens(t *testing.T) {
	tokens := make([]uint32, 40)
	base := Hashes(Root("m", "", nil), tokens, 16)
	if len(base) != 2 {
		t.Fatalf("%d hashes of 40 tokens, want 2", len(base))
	}
	for name, other := range map[string][]Hash{
		"model":   Hashes(Root("n", "", nil), tokens, 16),
		"adapter": Hashes(Root("m", "a", nil), tokens, 16),
		"split":   Hashes(Root("", "m", nil), tokens, 16),
		"tokens":  Hashes(Root("m", "", nil), append([]uint32{1}, tokens[1:]...), 16),
	} {
		if other[0] == base[0] || other[1] == base[1] {
			t.Errorf("%s does not change the hash", name)
		}
	}
}

func BenchmarkHashes(b *testing.B) {
	tokens := make([]uint32, 16*64)
	for b.Loop() {
		Hashes(Hash{}, tokens, 16)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/block")
}
