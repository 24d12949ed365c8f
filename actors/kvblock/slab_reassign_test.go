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
	"troupe/engine/tier"
	"troupe/messages"
	"troupe/testkit"
)

// tiers are a dram tier of three slabs, each of four small blocks or a large one, and an nvme tier of a file below it.
type tiers struct {
	*stage
	down *stage
}

func playTiers(t *testing.T, below func(tier.Store) tier.Store, upper, lower actor.ReceiverMiddleware) tiers {
	t.Helper()
	file := fileAt(t, filepath.Join(t.TempDir(), "kv"))
	t.Cleanup(func() { _ = file.Close() })
	store := below(file)
	down := play(t, kvblock.TierConfig{Name: "nvme", Store: store, Limits: kv.TierLimits{Watermark: 1}}, lower)
	s := &stage{t: t, sys: down.sys, store: slabbed(t, 3)}
	s.tier = testkit.Spawn(t, s.sys, "dram", supervise.Strategy(nil), kvblock.TierProps(kvblock.TierConfig{
		Name: "dram", Store: s.store, Policy: "lru", Log: zerolog.Nop(), Below: &kvblock.Lower{Name: "nvme", Tier: down.tier, Store: store},
		Limits: kv.TierLimits{Watermark: 1, IdleSteps: 10, Burst: 12},
	}), upper, testkit.Wire)
	return tiers{s, down}
}

func itself(s tier.Store) tier.Store { return s }

// reserving asks for a slot for a large block, and returns how many it gets, once it gets an answer.
func (p tiers) reserving(id string, number int) <-chan int {
	p.t.Helper()
	slots, began := make(chan int, 1), make(chan struct{})
	f := p.sys.Root.RequestFuture(p.tier, &messages.ReserveSlots{RequestId: id, Hashes: hashes(number), BlockBytes: largeBytes}, 2*time.Second)
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

// whole checks the small blocks that a tier has, and returns which those are.
func (s *stage) whole(numbers ...int) (held []int) {
	s.t.Helper()
	read := make([]byte, blockBytes)
	for _, n := range s.has(numbers...) {
		for _, b := range s.lock("whole", n) {
			if err := s.store.Read(s.t.Context(), int32(b.GetIndex()), kv.Hash(b.GetHash()), read); err != nil || !bytes.Equal(read, content(n)) {
				s.t.Errorf("block %d: %v, %v", n, read[:4], err)
			}
		}
		s.sys.Root.Send(s.tier, &messages.UnlockBlocks{RequestId: "whole"})
		held = append(held, n)
	}
	return held
}

// putLarge takes a large block through the protocol.
func (s *stage) putLarge(number int) {
	s.t.Helper()
	r := s.reserve("put-large", largeBytes, number).GetReserved().GetSlots()
	if err := s.store.Write(s.t.Context(), int32(r[0].GetIndex()), hash(number), make([]byte, largeBytes)); err != nil {
		s.t.Fatal(err)
	}
	s.sys.Root.Send(s.tier, &messages.CommitBlocks{RequestId: "put-large", Written: hashes(number)})
}

// gate is a store that can not be written to before it is opened.
type gate struct {
	tier.Store
	open  chan struct{}
	mu    sync.Mutex
	begun []kv.Hash
}

func (g *gate) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	g.mu.Lock()
	g.begun = append(g.begun, h)
	g.mu.Unlock()
	<-g.open
	return g.Store.Fill(ctx, slot, h, bytes, from)
}

// writes are the blocks that were to be written so far.
func (g *gate) writes() []kv.Hash {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.begun)
}

// gated is playTiers with a gate above the file, which reads pass.
func gated(t *testing.T, upper, lower actor.ReceiverMiddleware) (tiers, *gate) {
	t.Helper()
	g := &gate{open: make(chan struct{})}
	p := playTiers(t, func(s tier.Store) tier.Store { g.Store = s; return g }, upper, lower)
	p.down.store = g.Store
	return p, g
}

// TestTakenSlabGoesDown: whoever needs a slab gets it when its blocks are below, where they are right; none is dropped.
func TestTakenSlabGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := gated(t, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 12)...)
		first, again := p.reserving("large", 21), p.reserving("large", 21) // it is repeated
		other, lost := p.reserving("other", 22), p.reserving("lost", 23)
		p.sys.Root.Send(p.tier, &messages.CommitBlocks{RequestId: "lost"}) // who asked has given up
		synctest.Wait()
		if len(first)+len(other) > 0 || p.status().GetArriving() != 0 || len(g.writes()) != 4 {
			t.Errorf("not waited for: %v, and %d blocks go down", p.status(), len(g.writes()))
		}
		if got := p.whole(upTo(1, 12)...); len(got) != 12 {
			t.Errorf("of the blocks that leave, %v can be read", got)
		}
		close(g.open)
		time.Sleep(100 * time.Millisecond)
		if n := <-again; n != 1 {
			t.Errorf("%d slots for the large block", n)
		}
		if n := <-other; n != 1 {
			t.Errorf("%d slots for another", n)
		}
		if st := p.status(); st.GetDrops() != 0 || st.GetDepartures() != 8 || st.GetArriving() != 2 {
			t.Errorf("%v", st)
		}
		time.Sleep(2 * time.Second)
		if got := slices.Concat(p.down.whole(upTo(1, 12)...), p.whole(upTo(1, 12)...)); !slices.Equal(got, upTo(1, 12)) || len(lost) != 1 || <-lost != -1 {
			t.Errorf("%v are there", got)
		}
	})
}

// TestTakenSlabWhereNothingGoesDown: blocks are dropped where the tier below has no room for them, can not be written to, or takes too long; then those of another
// slab are.
func TestTakenSlabWhereNothingGoesDown(t *testing.T) {
	for name, tc := range map[string]struct {
		below func(tier.Store) tier.Store
		full  bool
		want  []int // of the blocks, somewhere
		waits bool  // for as long as it may
	}{
		"pinned": {below: itself, full: true, want: upTo(5, 12)},
		"broken": {below: func(s tier.Store) tier.Store { return &faulty{Store: s, bad: true} }, want: upTo(5, 12)},
		"slow": {below: func(s tier.Store) tier.Store {
			g := &gate{Store: s, open: make(chan struct{})}
			time.AfterFunc(5*time.Second, func() { close(g.open) }) // of the test's own time
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
				if n := <-p.reserving("large", 21); n != 1 || time.Since(began) >= time.Second != tc.waits { // of the test's own time
					t.Errorf("%d slots for the large block after %v", n, time.Since(began))
				}
				if st := p.status(); st.GetDrops() != 4 || st.GetArriving() != 1 {
					t.Errorf("%v", st)
				}
				time.Sleep(6 * time.Second)
				if got := slices.Sorted(slices.Values(slices.Concat(p.down.whole(upTo(1, 12)...), p.whole(upTo(1, 12)...)))); !slices.Equal(got, tc.want) {
					t.Errorf("%v are there, not %v", got, tc.want)
				}
				if st := p.status(); st.GetLeaving() != 0 {
					t.Errorf("%v", st)
				}
			})
		})
	}
}

// TestCrashWhileASlabIsVacated: no block is lost to a crash of either tier, and the slab can be had in the next life.
func TestCrashWhileASlabIsVacated(t *testing.T) {
	for name, tc := range map[string]struct{ upper, lower *testkit.Crash }{
		"upper":                   {&testkit.Crash{On: "*messages.StepsDone", Times: 1}, &testkit.Crash{}},
		"lower, after the writes": {&testkit.Crash{}, &testkit.Crash{On: "*messages.CommitBlocks", Times: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, g := gated(t, tc.upper.Middleware, tc.lower.Middleware)
				p.put(upTo(1, 12)...)
				answer := p.reserving("large", 21)
				p.status() // it waits now
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
				if n := <-p.reserving("again", 22); n != 1 {
					t.Errorf("%d slots for the large block in the next life", n)
				}
				if crashed := tc.upper.Crashed() + tc.lower.Crashed(); crashed == 0 {
					t.Fatal("no crash")
				}
				time.Sleep(time.Second)
				got := slices.Concat(p.down.whole(upTo(1, 12)...), p.whole(upTo(1, 12)...))
				slices.Sort(got)
				if got = slices.Compact(got); !slices.Equal(got, upTo(1, 12)) {
					t.Errorf("%v are there", got)
				}
			})
		})
	}
}

// TestCascadeAgain: once the tier below takes blocks again, those of a slab go down again.
func TestCascadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &faulty{bad: true}
		p := playTiers(t, func(s tier.Store) tier.Store { broken.Store = s; return broken }, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 12)...)
		<-p.reserving("dropped", 21)
		broken.set(false)
		time.Sleep(2 * time.Second)
		if n := <-p.reserving("cascaded", 22); n != 1 {
			t.Errorf("%d slots", n)
		}
		if st := p.status(); st.GetDrops() != 4 || st.GetDepartures() != 4 {
			t.Errorf("%v", st)
		}
	})
}

// TestSlabThatIsRead: who waits for a slab whose blocks are read for long gets another one, whose blocks are dropped; that is the exception.
func TestSlabThatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := gated(t, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 12)...)
		first := p.reserving("first", 21)
		if n := len(g.writes()); n != 4 || len(p.lock("long", 2)) != 1 {
			t.Fatalf("%d blocks go down", n)
		}
		close(g.open)
		if n := <-first; n != 1 || p.status().GetDrops() != 4 || len(p.down.whole(1, 2, 3, 4)) != 4 {
			t.Errorf("%d slots; %v", n, p.status())
		}
		next := p.reserving("next", 22)
		synctest.Wait()
		if p.sys.Root.Send(p.tier, &messages.UnlockBlocks{RequestId: "long"}); <-next != 1 || p.status().GetDrops() != 4 {
			t.Errorf("%v", p.status())
		}
		if got := slices.Concat(p.down.whole(upTo(1, 12)...), p.whole(upTo(1, 12)...)); !slices.Equal(got, []int{1, 2, 3, 4, 9, 10, 11, 12}) {
			t.Errorf("%v are there", got)
		}
	})
}

// TestAnswerThatNeedNotWait: where some of the blocks are here, the answer says so at once, and a slab is vacated for the others all the same.
func TestAnswerThatNeedNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := gated(t, testkit.Wire, testkit.Wire)
		p.put(upTo(1, 8)...)
		p.putLarge(21)
		if r := p.reserve("both", largeBytes, 22, 21).GetReserved(); len(r.GetHeld()) != 1 || len(r.GetSlots()) != 0 || len(g.writes()) != 4 {
			t.Errorf("%v, and %d blocks go down", r, len(g.writes()))
		}
		close(g.open)
	})
}

// TestWaitedForGoFirst: blocks whose slab is waited for go down before those that were to leave already.
func TestWaitedForGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := gated(t, testkit.Wire, testkit.Wire)
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
		whole := p.sys.Root.RequestFuture(p.tier, &messages.ReserveSlots{RequestId: "whole", Hashes: hashes(31), BlockBytes: 4 * kv.SlotUnit}, 2*time.Second)
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

// TestAllStayWhereNoneGoes: what was to leave, and was not begun before a write failed, stays, and leaves later.
func TestAllStayWhereNoneGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &faulty{bad: true}
		p := playTiers(t, func(s tier.Store) tier.Store { broken.Store = s; return broken }, testkit.Wire, testkit.Wire)
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
		if up, down := p.status(), p.down.status(); up.GetArrivals() != 3 || up.GetDepartures() != 3 || down.GetResident() != 3 { // it has not crashed
			t.Errorf("dram %v, nvme %v", up, down)
		}
	})
}

// TestBlocksTooLargeForBelow: the tier below is not asked for room for blocks that are larger than its slabs, and so has room for the others.
func TestBlocksTooLargeForBelow(t *testing.T) {
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
		p := playTiers(t, func(tier.Store) tier.Store { return newStore(t, 2) }, testkit.Wire, count)
		p.put(1, 2)
		p.putLarge(21)
		p.sys.Root.Send(p.tier, &messages.StepsDone{Steps: 11})
		time.Sleep(10 * time.Second)
		if st := p.status(); len(asked) != 1 || <-asked != blockBytes || st.GetDepartures() != 2 || st.GetResident() != 1 {
			t.Errorf("%d times; %v", len(asked), st)
		}
	})
}
