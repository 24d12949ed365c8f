package kvblock_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/cuda/host"
	"troupe/engine/tier"
	"troupe/messages"
	"troupe/testkit"
)

// largeBytes take three slots of blockBytes.
const largeBytes = 3 * kv.SlotUnit

// slabbed is an arena of so many slabs, each of four small blocks or one large one.
func slabbed(t *testing.T, slabs int) tier.Store {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	memory, err := d.AllocHost(int64(slabs) * 4 * kv.SlotUnit)
	if err != nil {
		t.Fatal(err)
	}
	return tier.NewArena(memory, 4*kv.SlotUnit)
}

func fileAt(t *testing.T, path string) *tier.File {
	t.Helper()
	f, err := tier.OpenFile(tier.FileConfig{Path: path, Slabs: kv.Slabs{Count: 3, Bytes: 9 * kv.SlotUnit}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *stage) reserve(id string, bytes uint64, numbers ...int) *messages.ReserveSlotsResult {
	s.t.Helper()
	return s.ask(&messages.ReserveSlots{RequestId: id, Hashes: hashes(numbers...), BlockBytes: bytes}).(*messages.ReserveSlotsResult)
}

// TestSizesShareATier: blocks of two sizes have slots at once, each as much as it needs, and the tier says what is whose.
func TestSizesShareATier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, kvblock.TierConfig{Name: "dram", Store: slabbed(t, 3), Limits: kv.TierLimits{Watermark: 1}})
		s.put(upTo(1, 12)...)
		if st := s.status(); st.GetTakenBytes() != 12*blockBytes || st.GetCapacityBytes() != 12*kv.SlotUnit || len(st.GetSizes()) != 1 || st.GetSizes()[0].GetSlabs() != 3 {
			t.Errorf("%v", st)
		}
		r := s.reserve("large", largeBytes, 21, 22)
		if len(r.GetReserved().GetSlots()) != 2 {
			t.Fatalf("%v", r)
		}
		if got := s.has(upTo(1, 12)...); !slices.Equal(got, upTo(9, 12)) {
			t.Errorf("%v are there beside two large ones", got)
		}
		if more := s.reserve("more", largeBytes, 23); len(more.GetReserved().GetSlots()) != 1 || len(s.has(upTo(1, 12)...)) != 0 {
			t.Errorf("%v", more)
		}
		if none := s.reserve("none", blockBytes, 13); none.GetReserved() == nil || len(none.GetReserved().GetSlots()) != 0 {
			t.Errorf("%v, and all blocks are arriving", none)
		}
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "large", Written: hashes(21, 22)})
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "more"})
		if st := s.status(); st.GetTakenBytes() != 2*largeBytes || st.GetResident() != 2 || len(st.GetSizes()) != 1 || st.GetSizes()[0].GetBlockBytes() != largeBytes {
			t.Errorf("%v", st)
		}
		if s.put(13); len(s.has(13, 21, 22)) != 3 { // where a block was given up before it came
			t.Errorf("%v", s.status())
		}
	})
}

func upTo(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// meeting is a store to which blocks can be written only several at once.
type meeting struct {
	tier.Store
	many int
	mu   sync.Mutex
	here int
	all  chan struct{} // closed when so many are here
}

func (m *meeting) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	m.mu.Lock()
	if m.here++; m.here == m.many {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
	case <-time.After(time.Minute): // of the test's own time
	}
	return m.Store.Fill(ctx, slot, h, bytes, from)
}

// TestBlocksGoDownTogether: as many at once as are worth it, of all sizes.
func TestBlocksGoDownTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := fileAt(t, filepath.Join(t.TempDir(), "kv"))
		defer file.Close()
		m := &meeting{Store: file, many: 4, all: make(chan struct{})}
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: m, Limits: kv.TierLimits{Watermark: 1}})
		s := &stage{t: t, sys: down.sys, store: slabbed(t, 4)}
		var mu sync.Mutex
		copied := map[int]int{} // bytes of a block -> blocks
		s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
			Name: "dram", Store: s.store, Policy: "lru", Log: zerolog.Nop(), Below: &kvblock.Lower{Name: "nvme", Tier: down.tier, Store: m},
			Limits: kv.TierLimits{Watermark: 1, IdleSteps: 10, Burst: 100},
			Copied: func(from, to string, bytes int, _ tier.Move) {
				mu.Lock()
				defer mu.Unlock()
				if copied[bytes]++; from != "dram" || to != "nvme" {
					t.Errorf("copied from %s to %s", from, to)
				}
			},
		}))
		large := s.reserve("large", largeBytes, 21)
		at := int32(large.GetReserved().GetSlots()[0].GetIndex())
		if err := s.store.Write(t.Context(), at, hash(21), make([]byte, largeBytes)); err != nil {
			t.Fatal(err)
		}
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "large", Written: hashes(21)})
		s.put(1, 2, 3, 4, 5)
		s.sys.Root.Send(s.tier, &messages.StepsDone{Steps: 11})
		for began := time.Now(); s.status().GetResident()+s.status().GetLeaving() > 0 && time.Since(began) < 30*time.Second; {
			time.Sleep(10 * time.Millisecond)
		}
		if up, below := s.status(), down.status(); up.GetDepartures() != 6 || below.GetResident() != 6 || below.GetTakenBytes() != 5*blockBytes+largeBytes {
			t.Errorf("dram %v, nvme %v", up, below)
		}
		if copied[blockBytes] != 5 || copied[largeBytes] != 1 {
			t.Errorf("copied %v", copied)
		}
	})
}

// TestFlushedStaysFlushed: what was flushed is not there after a restart either; what is pinned, or came later, is.
func TestFlushedStaysFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kv")
		file := fileAt(t, path)
		s := play(t, kvblock.TierConfig{Name: "nvme", Store: file, Limits: kv.TierLimits{Watermark: 1}})
		s.put(1, 2, 3, 4, 5, 6) // four to a slab
		s.sys.Root.Send(s.tier, &messages.PinBlocks{Replica: "a", Hashes: hashes(2)})
		if n := s.flush(); n != 5 {
			t.Errorf("%d blocks were dropped", n)
		}
		s.put(7)
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		again := fileAt(t, path)
		defer again.Close()
		next := playIn(t, s.sys, kvblock.TierConfig{Name: "next", Store: again})
		if got := next.has(upTo(1, 7)...); !slices.Equal(got, []int{2, 7}) {
			t.Errorf("%v are there after a restart", got)
		}
		full := &faultyErase{Store: again, begun: make(chan struct{})}
		last := playIn(t, s.sys, kvblock.TierConfig{Name: "last", Store: full})
		flush := &messages.FlushBlocks{RequestId: "flush"}
		s.sys.Root.Send(last.tier, flush)
		<-full.begun
		r := last.ask(flush).(*messages.BlocksMoved).GetMoved() // it is said again while it is being carried out
		if r.GetBlocks() != 2 || r.GetDetail() == "" || last.status().GetResident() != 0 || last.status().GetTakenBytes() != 0 {
			t.Errorf("%v; %v", r, last.status())
		}
	})
}

// faultyErase is a store on a disk that is slow, and then not written to.
type faultyErase struct {
	tier.Store
	begun chan struct{}
}

func (f *faultyErase) Erase(context.Context, []int32) error {
	close(f.begun)
	time.Sleep(100 * time.Millisecond) // of the test's own time
	return context.DeadlineExceeded
}

// TestBlocksThatAreBelow: what the tier below has is not copied there again.
func TestBlocksThatAreBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: newStore(t, 8)})
		s := &stage{t: t, sys: down.sys, store: newStore(t, 4)}
		s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
			Name: "dram", Store: s.store, Log: zerolog.Nop(), Below: &kvblock.Lower{Tier: down.tier, Store: down.store}, Limits: kv.TierLimits{IdleSteps: 10, Burst: 4},
		}))
		down.put(1, 2)
		s.put(1, 2, 3)
		s.sys.Root.Send(s.tier, &messages.StepsDone{Steps: 11})
		time.Sleep(time.Second)
		if up, below := s.status(), down.status(); up.GetDepartures() != 3 || up.GetFree() != 4 || below.GetArrivals() != 3 {
			t.Errorf("dram %v, nvme %v", up, below)
		}
	})
}
