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
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/testkit"
)

// largeBytes is the size of a large block, which takes three slots of blockBytes.
const largeBytes = 3 * kv.SlotUnit

// newSlabStore returns an arena of slabs, each for four small blocks or one large one.
func newSlabStore(t *testing.T, slabs int) kvstore.Store {
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
	return kvstore.NewArena(memory, 4*kv.SlotUnit)
}

func fileAt(t *testing.T, path string) *kvstore.File {
	t.Helper()
	f, err := kvstore.OpenFile(kvstore.FileConfig{Path: path, Slabs: kv.Slabs{Count: 3, Bytes: 9 * kv.SlotUnit}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *stage) reserve(id string, bytes uint64, numbers ...int) *messages.ReserveSlotsResult {
	s.t.Helper()
	return s.ask(&messages.ReserveSlots{RequestId: id, Hashes: hashes(numbers...),
		BlockBytes: bytes}).(*messages.ReserveSlotsResult)
}

// TestBlockSizesShareTier checks that blocks of two sizes share a tier, each with the slots it
// needs, and that the status reports them per size.
func TestBlockSizesShareTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, kvblock.TierConfig{Name: "dram", Store: newSlabStore(t, 3), Limits: kv.TierLimits{Watermark: 1}})
		s.put(upTo(1, 12)...)
		if st := s.status(); st.GetTakenBytes() != 12*blockBytes || st.GetCapacityBytes() != 12*kv.SlotUnit ||
			len(st.GetSizes()) != 1 || st.GetSizes()[0].GetSlabs() != 3 {
			t.Errorf("%v", st)
		}
		r := s.reserve("large", largeBytes, 21, 22)
		if len(r.GetReserved().GetSlots()) != 2 {
			t.Fatalf("%v", r)
		}
		if got := s.has(upTo(1, 12)...); !slices.Equal(got, upTo(9, 12)) {
			t.Errorf("the tier holds %v besides two large blocks", got)
		}
		if more := s.reserve("more", largeBytes, 23); len(more.GetReserved().GetSlots()) != 1 ||
			len(s.has(upTo(1, 12)...)) != 0 {
			t.Errorf("%v", more)
		}
		if none := s.reserve("none", blockBytes, 13); none.GetReserved() == nil ||
			len(none.GetReserved().GetSlots()) != 0 {
			t.Errorf("result %v while all blocks are arriving", none)
		}
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "large", Written: hashes(21, 22)})
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "more"})
		if st := s.status(); st.GetTakenBytes() != 2*largeBytes || st.GetResident() != 2 || len(st.GetSizes()) != 1 ||
			st.GetSizes()[0].GetBlockBytes() != largeBytes {
			t.Errorf("%v", st)
		}
		if s.put(13); len(s.has(13, 21, 22)) != 3 { // in the slot of an aborted block
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

// barrierStore is a store whose writes block until the given number of them have started.
type barrierStore struct {
	kvstore.Store
	many int
	mu   sync.Mutex
	here int
	all  chan struct{} // closed when the number of started writes reaches many
}

func (m *barrierStore) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	m.mu.Lock()
	if m.here++; m.here == m.many {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
	case <-time.After(time.Minute): // synctest time
	}
	return m.Store.Fill(ctx, slot, h, bytes, from)
}

// TestDemotionCopiesBlocksInParallel checks that demotion copies several blocks at once, of all
// sizes.
func TestDemotionCopiesBlocksInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := fileAt(t, filepath.Join(t.TempDir(), "kv"))
		defer file.Close()
		m := &barrierStore{Store: file, many: 4, all: make(chan struct{})}
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: m, Limits: kv.TierLimits{Watermark: 1}})
		s := &stage{t: t, sys: down.sys, store: newSlabStore(t, 4)}
		var mu sync.Mutex
		copied := map[int]int{} // number of blocks by size in bytes
		s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
			Name: "dram", Store: s.store, Policy: "lru", Log: zerolog.Nop(),
			Below:  &kvblock.Lower{Name: "nvme", Tier: down.tier, Store: m},
			Limits: kv.TierLimits{Watermark: 1, IdleSteps: 10, Burst: 100},
			OnDemoted: func(from, to string, bytes int, _ kvstore.Move) {
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
		for began := time.Now(); s.status().GetResident()+s.status().GetLeaving() > 0 &&
			time.Since(began) < 30*time.Second; {
			time.Sleep(10 * time.Millisecond)
		}
		if up, below := s.status(), down.status(); up.GetDemotions() != 6 || below.GetResident() != 6 ||
			below.GetTakenBytes() != 5*blockBytes+largeBytes {
			t.Errorf("dram %v, nvme %v", up, below)
		}
		if copied[blockBytes] != 5 || copied[largeBytes] != 1 {
			t.Errorf("copied %v", copied)
		}
	})
}

// TestFlushSurvivesRestart checks that flushed blocks are absent after a restart too, while pinned
// and later ones remain.
func TestFlushSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kv")
		file := fileAt(t, path)
		s := play(t, kvblock.TierConfig{Name: "nvme", Store: file, Limits: kv.TierLimits{Watermark: 1}})
		s.put(1, 2, 3, 4, 5, 6) // four per slab
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
			t.Errorf("the tier holds %v after a restart", got)
		}
		full := &faultyErase{Store: again, started: make(chan struct{})}
		last := playIn(t, s.sys, kvblock.TierConfig{Name: "last", Store: full})
		flush := &messages.FlushBlocks{RequestId: "flush"}
		s.sys.Root.Send(last.tier, flush)
		<-full.started
		r := last.ask(flush).(*messages.BlocksMoved).GetMoved() // repeated while the flush runs
		if r.GetBlocks() != 2 || r.GetDetail() == "" || last.status().GetResident() != 0 ||
			last.status().GetTakenBytes() != 0 {
			t.Errorf("%v; %v", r, last.status())
		}
	})
}

// faultyErase is a store on a slow disk whose erasure fails.
type faultyErase struct {
	kvstore.Store
	started chan struct{}
}

func (f *faultyErase) Erase(context.Context, []int32) error {
	close(f.started)
	time.Sleep(100 * time.Millisecond) // synctest time
	return context.DeadlineExceeded
}

// TestBlocksHeldBelowAreNotCopied checks that blocks that the tier below has are not copied again.
func TestBlocksHeldBelowAreNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: newStore(t, 8)})
		s := &stage{t: t, sys: down.sys, store: newStore(t, 4)}
		s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
			Name: "dram", Store: s.store, Log: zerolog.Nop(),
			Below: &kvblock.Lower{Tier: down.tier, Store: down.store}, Limits: kv.TierLimits{IdleSteps: 10, Burst: 4},
		}))
		down.put(1, 2)
		s.put(1, 2, 3)
		s.sys.Root.Send(s.tier, &messages.StepsDone{Steps: 11})
		time.Sleep(time.Second)
		if up, below := s.status(), down.status(); up.GetDemotions() != 3 || up.GetFree() != 4 ||
			below.GetArrivals() != 3 {
			t.Errorf("dram %v, nvme %v", up, below)
		}
	})
}
