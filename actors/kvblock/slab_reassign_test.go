package kvblock_test

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/testkit"
)

// tiers are a dram tier of three slabs, each for four small blocks or one large one, and an nvme
// tier below it in a file.
type tiers struct {
	*stage
	down *stage
}

func playTiers(t *testing.T, below func(kvstore.Store) kvstore.Store, upper, lower actor.ReceiverMiddleware) tiers {
	t.Helper()
	file := fileAt(t, filepath.Join(t.TempDir(), "kv"))
	t.Cleanup(func() { _ = file.Close() })
	store := below(file)
	down := play(t, kvblock.TierConfig{Name: "nvme", Store: store, Limits: kv.TierLimits{Watermark: 1}}, lower)
	s := &stage{t: t, sys: down.sys, store: newSlabStore(t, 3)}
	s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
		Name: "dram", Store: s.store, Policy: "lru", Log: zerolog.Nop(),
		Below:  &kvblock.Lower{Name: "nvme", Tier: down.tier, Store: store},
		Limits: kv.TierLimits{Watermark: 1, IdleSteps: 10, Burst: 12},
	}), upper, testkit.Wire)
	return tiers{s, down}
}

func unwrapped(s kvstore.Store) kvstore.Store { return s }

// reserveLarge requests a slot for a large block. The channel receives the number of slots granted.
func (p tiers) reserveLarge(id string, number int) <-chan int {
	p.t.Helper()
	slots, began := make(chan int, 1), make(chan struct{})
	f := p.sys.Root.RequestFuture(p.tier, &messages.ReserveSlots{RequestId: id, Hashes: hashes(number),
		BlockBytes: largeBytes}, 2*time.Second)
	go func() {
		close(began)
		answer, err := f.Result()
		if err != nil {
			slots <- -1
			return
		}
		slots <- len(answer.(*messages.ReserveSlotsResult).GetReserved().GetSlots())
	}()
	<-began
	return slots
}

// intactBlocks returns the given small blocks that a tier has, after checking their content.
func (s *stage) intactBlocks(numbers ...int) (held []int) {
	s.t.Helper()
	read := make([]byte, blockBytes)
	for _, n := range s.has(numbers...) {
		for _, b := range s.lock("whole", n) {
			if err := s.store.Read(s.t.Context(), int32(b.GetIndex()), kv.Hash(b.GetHash()), read); err != nil ||
				!bytes.Equal(read, content(n)) {
				s.t.Errorf("block %d: %v, %v", n, read[:4], err)
			}
		}
		s.sys.Root.Send(s.tier, &messages.UnlockBlocks{RequestId: "whole"})
		held = append(held, n)
	}
	return held
}

// putLarge writes a large block: reserve, copy, commit.
func (s *stage) putLarge(number int) {
	s.t.Helper()
	r := s.reserve("put-large", largeBytes, number).GetReserved().GetSlots()
	if err := s.store.Write(s.t.Context(), int32(r[0].GetIndex()), hash(number), make([]byte, largeBytes)); err != nil {
		s.t.Fatal(err)
	}
	s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "put-large", Written: hashes(number)})
}

// gatedStore is a store that blocks writes until it is opened.
type gatedStore struct {
	kvstore.Store
	open    chan struct{}
	mu      sync.Mutex
	started []kv.Hash
}

func (g *gatedStore) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	g.mu.Lock()
	g.started = append(g.started, h)
	g.mu.Unlock()
	<-g.open
	return g.Store.Fill(ctx, slot, h, bytes, from)
}

// writes returns the blocks whose writes have started so far.
func (g *gatedStore) writes() []kv.Hash {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.started)
}

// playGated is like playTiers, with a gate for writes to the file; reads pass.
func playGated(t *testing.T, upper, lower actor.ReceiverMiddleware) (tiers, *gatedStore) {
	t.Helper()
	g := &gatedStore{open: make(chan struct{})}
	p := playTiers(t, func(s kvstore.Store) kvstore.Store { g.Store = s; return g }, upper, lower)
	p.down.store = g.Store
	return p, g
}

// TestReassignedSlabIsDemoted checks that a slab needed by another size is assigned once its blocks
// are intact in the tier below; none is dropped.
func TestReassignedSlabIsDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := playGated(t, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 12)...)
		first, again := p.reserveLarge("large", 21), p.reserveLarge("large", 21) // repeated
		other, lost := p.reserveLarge("other", 22), p.reserveLarge("lost", 23)
		p.sys.Root.Send(p.tier, &messages.CommitBlocks{RequestId: "lost"}) // its requester has stopped waiting
		synctest.Wait()
		if len(first)+len(other) > 0 || p.status().GetArriving() != 0 || len(g.writes()) != 4 {
			t.Errorf("no reservation waits: %v, %d blocks are being demoted", p.status(), len(g.writes()))
		}
		if got := p.intactBlocks(upTo(1, 12)...); len(got) != 12 {
			t.Errorf("of the leaving blocks, %v can be read", got)
		}
		close(g.open)
		time.Sleep(100 * time.Millisecond)
		if n := <-again; n != 1 {
			t.Errorf("%d slots for the large block", n)
		}
		if n := <-other; n != 1 {
			t.Errorf("%d slots for another large block", n)
		}
		if st := p.status(); st.GetDrops() != 0 || st.GetDemotions() != 8 || st.GetArriving() != 2 {
			t.Errorf("%v", st)
		}
		time.Sleep(2 * time.Second)
		if got := slices.Concat(p.down.intactBlocks(upTo(1, 12)...),
			p.intactBlocks(upTo(1, 12)...)); !slices.Equal(got, upTo(1, 12)) || len(lost) != 1 || <-lost != -1 {
			t.Errorf("the tiers hold %v", got)
		}
	})
}

// TestReassignmentDropsBlocksIfDemotionFails checks that blocks are dropped if the tier below has
// no room, cannot be written to or takes too long. In the last case those of another slab are
// dropped.
func TestReassignmentDropsBlocksIfDemotionFails(t *testing.T) {
	for name, tc := range map[string]struct {
		below func(kvstore.Store) kvstore.Store
		full  bool
		want  []int // blocks left in either tier
		waits bool  // the reservation waits until it times out
	}{
		"pinned": {below: unwrapped, full: true, want: upTo(5, 12)},
		"broken": {below: func(s kvstore.Store) kvstore.Store { return &failingStore{Store: s, bad: true} },
			want: upTo(5, 12)},
		"slow": {below: func(s kvstore.Store) kvstore.Store {
			g := &gatedStore{Store: s, open: make(chan struct{})}
			time.AfterFunc(5*time.Second, func() { close(g.open) }) // synctest time
			return g
		}, want: []int{1, 2, 3, 4, 9, 10, 11, 12}, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := playTiers(t, tc.below, testkit.Wire, testkit.Wire)
				if tc.full {
					p.down.put(upTo(31, 54)...)
					p.sys.Root.Send(p.down.tier, &messages.PinBlocks{Replica: "a", Hashes: hashes(upTo(31, 54)...)})
				}
				p.put(upTo(1, 12)...)
				began := time.Now()
				// synctest time
				if n := <-p.reserveLarge("large", 21); n != 1 || time.Since(began) >= time.Second != tc.waits {
					t.Errorf("%d slots for the large block after %v", n, time.Since(began))
				}
				if st := p.status(); st.GetDrops() != 4 || st.GetArriving() != 1 {
					t.Errorf("%v", st)
				}
				time.Sleep(6 * time.Second)
				if got := slices.Sorted(slices.Values(slices.Concat(p.down.intactBlocks(upTo(1, 12)...),
					p.intactBlocks(upTo(1, 12)...)))); !slices.Equal(got, tc.want) {
					t.Errorf("the tiers hold %v, want %v", got, tc.want)
				}
				if st := p.status(); st.GetLeaving() != 0 {
					t.Errorf("%v", st)
				}
			})
		})
	}
}

// TestCrashDuringReassignmentLosesNoBlock checks that a crash of either tier loses no block and
// that the slab can be assigned after the restart.
func TestCrashDuringReassignmentLosesNoBlock(t *testing.T) {
	for name, tc := range map[string]struct{ upper, lower *testkit.Crash }{
		"upper":                   {&testkit.Crash{On: "*messages.StepsDone", Times: 1}, &testkit.Crash{}},
		"lower, after the writes": {&testkit.Crash{}, &testkit.Crash{On: "*messages.CommitBlocks", Times: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, g := playGated(t, tc.upper.Middleware, tc.lower.Middleware)
				p.put(upTo(1, 12)...)
				answer := p.reserveLarge("large", 21)
				p.status() // the reservation is waiting now
				if tc.upper.Times > 0 {
					p.sys.Root.Send(p.tier, &messages.StepsDone{Steps: 1})
					if st := p.status(); st.GetResident() != 12 || st.GetLeaving() != 0 {
						t.Errorf("%v", st)
					}
				}
				close(g.open)
				if n := <-answer; n != 1 && tc.upper.Times == 0 {
					t.Errorf("%d slots for the large block", n)
				}
				if n := <-p.reserveLarge("again", 22); n != 1 {
					t.Errorf("%d slots for the large block after the restart", n)
				}
				if crashed := tc.upper.Crashed() + tc.lower.Crashed(); crashed == 0 {
					t.Fatal("no crash")
				}
				time.Sleep(time.Second)
				got := slices.Concat(p.down.intactBlocks(upTo(1, 12)...), p.intactBlocks(upTo(1, 12)...))
				slices.Sort(got)
				if got = slices.Compact(got); !slices.Equal(got, upTo(1, 12)) {
					t.Errorf("the tiers hold %v", got)
				}
			})
		})
	}
}

// TestReassignmentResumesWithTierBelow checks that slabs are demoted again once the tier below
// accepts blocks again.
func TestReassignmentResumesWithTierBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &failingStore{bad: true}
		wrap := func(s kvstore.Store) kvstore.Store { broken.Store = s; return broken }
		p := playTiers(t, wrap, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 12)...)
		<-p.reserveLarge("dropped", 21)
		broken.set(false)
		time.Sleep(2 * time.Second)
		if n := <-p.reserveLarge("cascaded", 22); n != 1 {
			t.Errorf("%d slots", n)
		}
		if st := p.status(); st.GetDrops() != 4 || st.GetDemotions() != 4 {
			t.Errorf("%v", st)
		}
	})
}

// TestReassignmentOfReadSlabTimesOut checks that a reservation for a slab whose blocks are being
// read for long gets another slab, whose blocks are dropped.
func TestReassignmentOfReadSlabTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := playGated(t, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 12)...)
		first := p.reserveLarge("first", 21)
		if n := len(g.writes()); n != 4 || len(p.lock("long", 2)) != 1 {
			t.Fatalf("%d blocks are being demoted", n)
		}
		close(g.open)
		if n := <-first; n != 1 || p.status().GetDrops() != 4 || len(p.down.intactBlocks(1, 2, 3, 4)) != 4 {
			t.Errorf("%d slots; %v", n, p.status())
		}
		next := p.reserveLarge("next", 22)
		synctest.Wait()
		if p.sys.Root.Send(p.tier, &messages.UnlockBlocks{RequestId: "long"}); <-next != 1 ||
			p.status().GetDrops() != 4 {
			t.Errorf("%v", p.status())
		}
		if got := slices.Concat(p.down.intactBlocks(upTo(1, 12)...),
			p.intactBlocks(upTo(1, 12)...)); !slices.Equal(got, []int{1, 2, 3, 4, 9, 10, 11, 12}) {
			t.Errorf("the tiers hold %v", got)
		}
	})
}

// TestPartialReservationIsAnsweredAtOnce checks that a reservation is answered at once if the tier
// has some of its blocks, and that a slab is reassigned for the others anyway.
func TestPartialReservationIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := playGated(t, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 8)...)
		p.putLarge(21)
		if r := p.reserve("both", largeBytes, 22, 21).GetReserved(); len(r.GetHeld()) != 1 ||
			len(r.GetSlots()) != 0 || len(g.writes()) != 4 {
			t.Errorf("result %v, %d blocks are being demoted", r, len(g.writes()))
		}
		close(g.open)
	})
}

// TestReassignedSlabIsDemotedFirst checks that blocks of a slab being reassigned are demoted before
// blocks that were due already.
func TestReassignedSlabIsDemotedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := playGated(t, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 4)...)
		p.putLarge(21)
		p.put(upTo(5, 8)...)
		for range 20 {
			p.has(21, 5, 6, 7, 8)
		}
		p.sys.Root.Send(p.tier, &messages.StepsDone{Steps: 5})
		p.has(3, 4, 5, 6, 7, 8)
		p.sys.Root.Send(p.tier, &messages.StepsDone{Steps: 6}) // 1, 2 and 21 are idle
		if g.writes(); p.status().GetLeaving() != 3 {
			t.Fatalf("%v", p.status())
		}
		whole := p.sys.Root.RequestFuture(p.tier, &messages.ReserveSlots{RequestId: "whole", Hashes: hashes(31),
			BlockBytes: 4 * kv.SlotUnit}, 2*time.Second)
		synctest.Wait()
		close(g.open)
		if r, err := whole.Result(); err != nil || len(r.(*messages.ReserveSlotsResult).GetReserved().GetSlots()) != 1 {
			t.Fatal(r, err)
		}
		if w := g.writes(); len(w) != 5 || w[4] != hash(21) {
			t.Errorf("%x", w)
		}
	})
}

// TestFailedWriteKeepsRemainingBlocks checks that blocks due for demotion stay if an earlier write
// fails, and are demoted later.
func TestFailedWriteKeepsRemainingBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &failingStore{bad: true}
		wrap := func(s kvstore.Store) kvstore.Store { broken.Store = s; return broken }
		p := playTiers(t, wrap, testkit.Wire, testkit.Wire)
		p.put(1, 2)
		p.putLarge(21)
		p.sys.Root.Send(p.tier, &messages.StepsDone{Steps: 11})
		time.Sleep(500 * time.Millisecond)
		if st := p.status(); st.GetResident() != 3 || st.GetLeaving() != 0 {
			t.Errorf("%v", st)
		}
		broken.set(false)
		time.Sleep(time.Second)
		p.sys.Root.Send(p.tier, &messages.StepsDone{Steps: 11})
		time.Sleep(time.Second)
		// no tier has crashed
		if up, down := p.status(), p.down.status(); up.GetArrivals() != 3 || up.GetDemotions() != 3 ||
			down.GetResident() != 3 {
			t.Errorf("dram %v, nvme %v", up, down)
		}
	})
}

// TestBlocksTooLargeForTierBelowStay checks that the tier below is not asked to store blocks larger
// than its slabs, and stores the others.
func TestBlocksTooLargeForTierBelowStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan uint64, 10) // block sizes
		count := func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
				if r, ok := env.Message.(*messages.ReserveSlots); ok {
					asked <- r.GetBlockBytes()
				}
				next(ctx, env)
			}
		}
		p := playTiers(t, func(kvstore.Store) kvstore.Store { return newStore(t, 2) }, testkit.Wire, count)
		p.put(1, 2)
		p.putLarge(21)
		p.sys.Root.Send(p.tier, &messages.StepsDone{Steps: 11})
		time.Sleep(10 * time.Second)
		if st := p.status(); len(asked) != 1 || <-asked != blockBytes || st.GetDemotions() != 2 ||
			st.GetResident() != 1 {
			t.Errorf("asked %d times; %v", len(asked), st)
		}
	})
}
