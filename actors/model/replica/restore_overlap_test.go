package replica_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

const (
	modelLayers = 6
	layerBytes  = 4096
	restorable  = 4 // full blocks of 8 tokens that a prompt of 40 can start with
)

// TestRestoreOverlapFaults injects faults into restores that a step waits for. All sequences must
// get their tokens. Missing blocks are recomputed, and blocks before a damaged one are used.
func TestRestoreOverlapFaults(t *testing.T) {
	at := func(block, layer int, do func(ctx context.Context) error) func(context.Context, int, int) error {
		return func(ctx context.Context, b, l int) error {
			if b == block && l == layer {
				return do(ctx)
			}
			return nil
		}
	}
	// A restore starts together with a step. The sequence starts with the next step, which computes
	// two steps after the restore started. No delay ends at the same time as a step, because the
	// order in which the replica receives the two results would be undefined.
	late := func(after time.Duration, err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(after); return err }
	}
	for name, tc := range map[string]struct {
		do      func(ctx context.Context) error
		aborted bool // the waiting step is aborted
		comes   bool // the restore eventually succeeds
	}{
		"damage":    {late(stepTime+2*time.Millisecond, errDamage), true, false},
		"disk":      {late(stepTime+2*time.Millisecond, errDisk), true, false},
		"slow":      {late(2*stepTime+5*time.Millisecond, nil), false, true},
		"very slow": {late(2*stepTime+53*time.Millisecond, nil), true, true},
		"endless":   {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTierCluster(t, 1, slowPrefill, nil)
				last := r.status(r.a)
				for layer := range modelLayers {
					for block := range restorable {
						if name != "damage" && block != layer%restorable {
							continue // to save time
						}
						s := r.runRestored(fmt.Sprintf("%s at layer %d of block %d", name, layer, block),
							func() { r.store.set(at(block, layer, tc.do)) })
						aborted, came, overlapped := s.GetKvStepsAborted()-last.GetKvStepsAborted(),
							s.GetKvRestored()-last.GetKvRestored(),
							s.GetKvRestoresOverlapped()-last.GetKvRestoresOverlapped()
						all := uint64(restorable)
						if !tc.comes {
							all = uint64(block)
						}
						if name == "endless" {
							all = 0 // parts of all blocks were missing at the timeout
							if layer == modelLayers-1 {
								all = uint64(block)
							}
						}
						starts := layer > 0 // the sequence starts once the first layer is restored
						if (aborted == 1) != (tc.aborted && starts) || aborted > 1 || came != all ||
							(overlapped > 0) != (!tc.aborted && starts) {
							t.Errorf("layer %d of block %d: %d aborted steps, %d restored, %d overlapped", layer,
								block, aborted, came, overlapped)
						}
						last = s
					}
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}

// TestRestoreOverlapCrashes crashes the engine or the replica while a step waits for a restore, or
// at the end of a restore. No sequence must be lost or computed wrong, and nothing must leak.
func TestRestoreOverlapCrashes(t *testing.T) {
	// hold delays the last layer of the last block until a step waits for it, for less than
	// kv.GateTimeout.
	hold := func(r *tierCluster) {
		r.store.set(func(_ context.Context, b, l int) error {
			if l == modelLayers-1 && b == restorable-1 {
				time.Sleep(2*stepTime + 15*time.Millisecond)
			}
			return nil
		})
	}
	var waits atomic.Pointer[func(batch []engine.Sequence)] // called at the start of each step
	once := func(times int, do func()) func([]engine.Sequence) {
		return func(batch []engine.Sequence) {
			if times > 0 && slices.ContainsFunc(batch, gated) {
				times--
				do()
			}
		}
	}
	for name, tc := range map[string]struct {
		engine  int    // number of crashes in a step that waits
		replica string // crashes on the next message of this type
	}{
		"engine, once":            {engine: 1},
		"engine, then one by one": {engine: 2},
		"replica, step":           {replica: "*messages.RunStepResult"},
		"replica, restored":       {replica: "*messages.CopyFoundBlocksResult"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := &trigger{on: tc.replica}
				set := func(f func([]engine.Sequence)) { waits.Store(&f) }
				set(func([]engine.Sequence) {})
				r := newTierCluster(t, 1, slowPrefill, func(batch []engine.Sequence) { (*waits.Load())(batch) },
					crash.middleware)
				s := r.runRestored(name, func() {
					hold(r)
					set(once(tc.engine, func() { panic("injected crash of a step that waits") }))
					if tc.replica != "" {
						set(once(1, func() { crash.armed.Store(true) }))
					}
				})
				if tc.engine > 0 && s.GetKvRestoresOverlapped() != 1 {
					t.Errorf("%d overlapped", s.GetKvRestoresOverlapped())
				}
				if (tc.replica != "") != crash.fired.Load() {
					t.Errorf("the replica crashed: %v", crash.fired.Load())
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}

// trigger acts on the next message of a type once it is armed: it calls instead, or crashes the
// receiver if instead is nil.
type trigger struct {
	on           string
	instead      func(take func()) // take delivers the message
	armed, fired atomic.Bool
}

func (a *trigger) middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if fmt.Sprintf("%T", env.Message) == a.on && a.armed.CompareAndSwap(true, false) {
			a.fired.Store(true)
			if a.instead == nil {
				panic("injected crash on " + a.on)
			}
			a.instead(func() { next(ctx, env) })
			return
		}
		next(ctx, env)
	}
}

func moveDuringRestore(r *tierCluster, c *testClient) {
	want := r.reference(sampled(5, 40, 4))
	m := r.move(r.a, r.b, c.id)
	if got := m.GetSequences(); len(got) != 1 || !got[0].GetMoved() {
		r.t.Errorf("%v", m)
	}
	r.checkOutcome(c, want)
}

// TestRestoreOverlapInterrupted checks events while a step waits for a restore. A cancelled
// sequence leaves nothing behind. A migration and a shrink happen after the step.
func TestRestoreOverlapInterrupted(t *testing.T) {
	for name, do := range map[string]func(r *tierCluster, c *testClient){
		"cancelled": func(r *tierCluster, c *testClient) {
			r.operator.Send(r.a.PID, &messages.CancelSequence{RequestId: c.id})
			r.sys.Root.Stop(c.session)
		},
		"moved":                  moveDuringRestore,
		"migrated, step aborted": moveDuringRestore,
		"shrunk": func(r *tierCluster, c *testClient) {
			want := r.reference(sampled(5, 40, 4))
			r.a.gpu.Send(r.a.PID, &messages.ShrinkKV{Lease: r.a.name, Blocks: 63, Attempt: 1})
			r.waitFor("the shrink", func() bool { return len(testkit.Got[*messages.KVShrunk](r.a.gpu)) > 0 })
			r.a.gpu.Send(r.a.PID, &messages.GrowKV{Lease: r.a.name, Blocks: 64})
			r.checkOutcome(c, want)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waits := make(chan struct{}, 8)
				r := newTierCluster(t, 1, slowPrefill, func(batch []engine.Sequence) {
					if slices.ContainsFunc(batch, gated) {
						waits <- struct{}{}
					}
				})
				seq := sampled(5, 40, 4)
				r.checkOutcome(r.open(seq), r.reference(seq))
				r.offloadAll()
				r.store.set(func(_ context.Context, b, l int) error {
					if l == modelLayers-1 && b == restorable-1 {
						if time.Sleep(stepTime + 15*time.Millisecond); name == "migrated, step aborted" {
							return errDamage
						}
					}
					return nil
				})
				c := r.open(seq)
				<-waits
				do(r, c)
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}

// TestRestoreOverlapStartsInTime checks that a sequence starts once its first layers are restored,
// without an aborted step. It must start earlier than with a restore of whole blocks.
func TestRestoreOverlapStartsInTime(t *testing.T) {
	const each = 100 * time.Microsecond // to read a layer of a block
	begins := func(partBytes int) (after time.Duration, s *messages.ReplicaStatus) {
		synctest.Test(t, func(t *testing.T) {
			var stepped atomic.Pointer[time.Time] // start of the first step
			r := newTierCluster(t, partBytes, 0, func([]engine.Sequence) {
				now := time.Now().Add(-stepTime)
				stepped.CompareAndSwap(nil, &now)
			})
			first := r.open(greedy(5, 40, 2))
			r.waitFor("the end of the first sequence", first.done)
			r.offloadAll()
			r.store.set(nil)
			r.store.took = func(bytes int) { time.Sleep(each * time.Duration(bytes/layerBytes)) }
			began := time.Now()
			stepped.Store(nil)
			c := r.open(greedy(5, 40, 2))
			r.waitFor("its end", c.done)
			after, s = stepped.Load().Sub(began), r.status(r.a)
			r.checkUnlocked()
			r.checkEmpty()
		})
		return after, s
	}
	whole, s := begins(1 << 30)
	if whole != modelLayers*restorable*each || s.GetKvRestoresOverlapped() != 0 {
		t.Errorf("whole blocks: it starts after %v; %v", whole, s)
	}
	rising, s := begins(1)
	if rising != restorable*each || s.GetKvRestoresOverlapped() != 1 || s.GetKvStepsAborted() != 0 {
		t.Errorf("layers: it starts after %v, with whole blocks after %v; %v", rising, whole, s)
	}
}

// TestRestoreOverlapWithoutStep checks that a started sequence that gets no step before its restore
// ends uses the restored blocks, or recomputes the missing ones.
func TestRestoreOverlapWithoutStep(t *testing.T) {
	seq, ahead := sampled(5, 40, 4), sampled(7, 200, 2) // its prefill fills whole steps
	synctest.Test(t, func(t *testing.T) {               // in another cluster, so that its blocks are not in the tier
		r := newTierCluster(t, 1, slowPrefill, nil)
		r.reference(seq)
		r.reference(ahead)
	})
	for name, tc := range map[string]struct {
		fault error
		came  uint64
	}{"success": {nil, restorable}, "damage": {errDamage, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTierCluster(t, 1, slowPrefill, func(batch []engine.Sequence) {
					if slices.ContainsFunc(batch, gated) {
						t.Error("a step waits: the test shows nothing")
					}
				})
				want, first := r.reference(seq), r.reference(ahead)
				r.checkOutcome(r.open(seq), want)
				r.offloadAll()
				r.store.set(func(_ context.Context, b, l int) error {
					if b == 1 && l == modelLayers-1 {
						time.Sleep(slowPrefill * 3 / 2) // the sequence starts meanwhile
						return tc.fault
					}
					return nil
				})
				before := r.open(ahead)
				r.checkOutcome(r.open(seq), want)
				r.checkOutcome(before, first)
				if s := r.status(r.a); s.GetKvRestored() != tc.came || s.GetKvStepsAborted() != 0 ||
					s.GetTokensCached() != 8*tc.came {
					t.Errorf("%v", s)
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}
