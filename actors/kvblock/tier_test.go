package kvblock_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/cuda/host"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/testkit"
)

const blockBytes = 100

// stage is a tier with the test as its requester.
type stage struct {
	t     *testing.T
	sys   *actor.ActorSystem
	tier  *actor.PID
	store kvstore.Store
	asked int
}

func newStore(t *testing.T, slots int) kvstore.Store {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	memory, err := d.AllocHost(int64(slots) * kv.SlotUnit)
	if err != nil {
		t.Fatal(err)
	}
	return kvstore.NewArena(memory, slots*kv.SlotUnit)
}

func play(t *testing.T, cfg kvblock.TierConfig, mw ...actor.ReceiverMiddleware) *stage {
	t.Helper()
	return playIn(t, testkit.System(t), cfg, mw...)
}

func playIn(t *testing.T, sys *actor.ActorSystem, cfg kvblock.TierConfig, mw ...actor.ReceiverMiddleware) *stage {
	t.Helper()
	cfg.Log, cfg.Policy = zerolog.Nop(), "lru"
	return &stage{t: t, sys: sys, store: cfg.Store, tier: testkit.Spawn(t, sys, cfg.Name, supervise.Strategy(nil),
		kvblock.TierProps(cfg), mw...)}
}

func (s *stage) ask(m proto.Message) any {
	s.t.Helper()
	answer, err := s.sys.Root.RequestFuture(s.tier, m, time.Second).Result()
	if err != nil {
		s.t.Fatalf("%T: %v", m, err)
	}
	return answer
}

func (s *stage) status() *messages.SlotsStatus {
	s.t.Helper()
	synctest.Wait()
	return s.ask(&messages.GetSlots{}).(*messages.SlotsStatus)
}

func hash(n int) kv.Hash { return kv.Root("test", fmt.Sprint(n), nil) }

func hashes(numbers ...int) (all [][]byte) {
	for _, n := range numbers {
		h := hash(n)
		all = append(all, h[:])
	}
	return all
}

func content(n int) []byte {
	b := make([]byte, blockBytes)
	for i := range b {
		b[i] = byte(n + i)
	}
	return b
}

// put writes blocks: reserve, copy, commit.
func (s *stage) put(numbers ...int) {
	s.t.Helper()
	s.asked++
	id := fmt.Sprint("put-", s.asked)
	r := s.ask(&messages.ReserveSlots{RequestId: id, Hashes: hashes(numbers...),
		BlockBytes: blockBytes}).(*messages.ReserveSlotsResult)
	commit := &messages.CommitBlocks{RequestId: id}
	for _, b := range r.GetReserved().GetSlots() {
		for _, n := range numbers {
			if h := hash(n); string(h[:]) == string(b.GetHash()) {
				if err := s.store.Write(s.t.Context(), int32(b.GetIndex()), h, content(n)); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		commit.Written = append(commit.Written, b.GetHash())
	}
	s.sys.Root.Send(s.tier, commit)
}

func (s *stage) lock(id string, numbers ...int) []*messages.Block {
	s.t.Helper()
	return s.ask(&messages.LockBlocks{RequestId: id,
		Hashes: hashes(numbers...)}).(*messages.LockBlocksResult).GetLocked()
}

// TestTierProtocol checks which requesters may write and read a slot, and that a repeated command
// repeats the answer.
func TestTierProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, kvblock.TierConfig{Name: "dram", Store: newStore(t, 3)})
		reserve := &messages.ReserveSlots{RequestId: "a", Hashes: hashes(1, 2), BlockBytes: blockBytes}
		first := s.ask(reserve).(*messages.ReserveSlotsResult)
		if again := s.ask(reserve).(*messages.ReserveSlotsResult); !proto.Equal(first, again) ||
			len(first.GetReserved().GetSlots()) != 2 {
			t.Errorf("%v, then %v", first, again)
		}
		if got := s.lock("early", 1, 2); len(got) != 0 {
			t.Errorf("arriving blocks were locked: %v", got)
		}
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "a", Written: hashes(1)})
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "a", Written: hashes(1)}) // repeated command
		if st := s.status(); st.GetResident() != 1 || st.GetFree() != 2 {
			t.Errorf("%v", st)
		}
		other := s.ask(&messages.ReserveSlots{RequestId: "b", Hashes: hashes(1, 3),
			BlockBytes: blockBytes}).(*messages.ReserveSlotsResult)
		if r := other.GetReserved(); len(r.GetHeld()) != 1 || len(r.GetSlots()) != 1 {
			t.Errorf("%v", other)
		}
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "b"})
		large := s.ask(&messages.ReserveSlots{RequestId: "c", Hashes: hashes(4),
			BlockBytes: 3*kv.SlotUnit + 1}).(*messages.ReserveSlotsResult)
		if large.GetRefused().GetReason() != messages.Reason_REASON_TOO_LONG {
			t.Errorf("%v", large)
		}
		locked := s.lock("l", 1)
		if again := s.lock("l", 1); len(locked) != 1 || len(again) != 1 {
			t.Errorf("%v, then %v", locked, again)
		}
		s.put(5, 6, 7) // one of them gets no slot, since 1 is being read
		if st := s.status(); st.GetResident() != 3 || len(s.lock("l2", 1)) != 1 {
			t.Errorf("%v", st)
		}
		for _, id := range []string{"l", "l2", "l", "unknown"} {
			s.sys.Root.Send(s.tier, &messages.UnlockBlocks{RequestId: id, Damaged: hashes(1)})
		}
		if st := s.status(); st.GetDamaged() != 1 || st.GetFree() != 1 {
			t.Errorf("%v", st)
		}
	})
}

// TestTierRecoversWrittenBlocks checks that written blocks survive a crash, and that grants do not:
// late commands for them are ignored.
func TestTierRecoversWrittenBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.StepsDone", Times: 1}
		s := play(t, kvblock.TierConfig{Name: "dram", Store: newStore(t, 4)}, crash.Middleware)
		s.put(1, 2)
		late := &messages.ReserveSlots{RequestId: "late", Hashes: hashes(3), BlockBytes: blockBytes}
		s.ask(late)
		s.lock("locked", 1)
		s.sys.Root.Send(s.tier, &messages.StepsDone{Steps: 1})
		if st := s.status(); st.GetResident() != 2 || st.GetFree() != 2 || crash.Crashed() != 1 {
			t.Errorf("%v", st)
		}
		s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "late", Written: hashes(3)})
		s.sys.Root.Send(s.tier, &messages.UnlockBlocks{RequestId: "locked"})
		if st := s.status(); st.GetResident() != 2 || st.GetFree() != 2 {
			t.Errorf("%v", st)
		}
		s.put(3)
		if z := s.status().GetSizes(); len(z) != 1 || z[0].GetBlockBytes() != blockBytes || z[0].GetTaken() != 3 {
			t.Errorf("%v", z)
		}
		b := make([]byte, blockBytes)
		for _, l := range s.lock("again", 1, 2) {
			if err := s.store.Read(t.Context(), int32(l.GetIndex()), kv.Hash(l.GetHash()), b); err != nil {
				t.Error(err)
			}
		}
	})
}

// failingStore is a store whose writes fail on request.
type failingStore struct {
	kvstore.Store
	mu  sync.Mutex
	bad bool
}

// TestDemotionToTierBelow checks that blocks above the watermark and idle blocks arrive intact in
// the tier below.
func TestDemotionToTierBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := kvstore.OpenFile(kvstore.FileConfig{Path: filepath.Join(t.TempDir(), "kv"),
			Slabs: kv.Slabs{Count: 1, Bytes: 17 * kv.SlotUnit}})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: f})
		s := &stage{t: t, sys: down.sys, store: newStore(t, 4)}
		s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
			Name: "dram", Store: s.store, Policy: "lru", Log: zerolog.Nop(),
			Below:  &kvblock.Lower{Tier: down.tier, Store: f},
			Limits: kv.TierLimits{Watermark: 0.5, IdleSteps: 10, Burst: 4},
		}))
		s.put(1, 2, 3)
		settle := func(what string, done func() bool) {
			t.Helper()
			for range 100 {
				if done() {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Fatalf("waited for: %s; dram %v, nvme %v", what, s.status(), down.status())
		}
		settle("the oldest to go down", func() bool {
			return down.status().GetResident() == 1 &&
				s.status().GetResident() == 2
		})
		s.sys.Root.Send(s.tier, &messages.StepsDone{Steps: 11})
		settle("idle ones to follow", func() bool {
			return down.status().GetResident() == 3 &&
				s.status().GetFree() == 4
		})
		b := make([]byte, blockBytes)
		for _, l := range down.lock("check", 1, 2, 3) {
			if err := f.Read(t.Context(), int32(l.GetIndex()), kv.Hash(l.GetHash()), b); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestDamagedBlockIsNotDemoted checks that a block damaged in a tier is dropped there and not
// copied down.
func TestDamagedBlockIsNotDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: newStore(t, 8)})
		upper := newStore(t, 4)
		s := &stage{t: t, sys: down.sys, store: upper}
		s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
			Name: "dram", Store: upper, Policy: "lru", Log: zerolog.Nop(),
			Below:  &kvblock.Lower{Tier: down.tier, Store: down.store},
			Limits: kv.TierLimits{IdleSteps: 10, Burst: 4},
		}))
		s.put(1, 2)
		if err := upper.Erase(t.Context(), []int32{0}); err != nil { // not reported to the tier
			t.Fatal(err)
		}
		s.sys.Root.Send(s.tier, &messages.StepsDone{Steps: 11})
		time.Sleep(time.Second)
		if up, below := s.status(), down.status(); up.GetDamaged() != 1 || up.GetFree() != 4 ||
			below.GetResident() != 1 || below.GetFree() != 7 {
			t.Errorf("dram %v, nvme %v", up, below)
		}
	})
}

// TestFailedDemotionKeepsBlocks checks that blocks stay while the tier below cannot be written to.
// Nothing leaks there, and they are demoted once it can.
func TestFailedDemotionKeepsBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &failingStore{Store: newStore(t, 8), bad: true}
		down := play(t, kvblock.TierConfig{Name: "nvme", Store: broken})
		s := &stage{t: t, sys: down.sys, store: newStore(t, 4)}
		var failed atomic.Int64
		s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
			Name: "dram", Store: s.store, Policy: "lru", Log: zerolog.Nop(),
			Below:  &kvblock.Lower{Tier: down.tier, Store: broken},
			Limits: kv.TierLimits{Watermark: 0.5, Burst: 4},
			OnDemoted: func(_, _ string, _ int, m kvstore.Move) {
				if errors.Is(m.Err, syscall.ENOSPC) {
					failed.Add(1)
				}
			},
		}))
		s.put(1, 2, 3)
		time.Sleep(500 * time.Millisecond)
		if up, below := s.status(), down.status(); up.GetResident() != 3 || below.GetFree() != 8 || failed.Load() != 1 {
			t.Errorf("dram %v, nvme %v, %d reported as failed", up, below, failed.Load())
		}
		broken.set(false)
		time.Sleep(2 * time.Second)
		if up, below := s.status(), down.status(); up.GetResident() != 2 || below.GetResident() != 1 {
			t.Errorf("dram %v, nvme %v", up, below)
		}
	})
}

func (f *failingStore) set(bad bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bad = bad
}

func (f *failingStore) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	f.mu.Lock()
	bad := f.bad
	f.mu.Unlock()
	if bad {
		return syscall.ENOSPC
	}
	return f.Store.Fill(ctx, slot, h, bytes, from)
}
