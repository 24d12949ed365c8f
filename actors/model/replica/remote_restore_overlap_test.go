package replica_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/kvblock"
	"troupe/actors/model/replica"
	"troupe/actors/supervise"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// newLayeredCluster is like newRemoteCluster, with restores by single layers and a tier at the
// second replica.
func newLayeredCluster(t *testing.T, before func([]engine.Sequence), mw ...actor.ReceiverMiddleware) *tierCluster {
	t.Helper()
	r := &tierCluster{store: newFaulty(t), cluster: unbuiltRemoteCluster(t, nil, mw...)}
	remote := r.tiers
	r.tiers = func(name string) replica.Tiers {
		tiers := remote(name)
		tiers.PartBytes, tiers.Watermark, tiers.IdleSteps = 1, 1, 1<<40
		if name == "m-1" {
			r.tierPID = testkit.Spawn(t, r.sys, "dram", supervise.Strategy(nil),
				kvblock.TierProps(kvblock.TierConfig{Name: "dram", Store: r.store, Log: zerolog.Nop()}))
			tiers.Lower = []replica.Tier{{Name: "dram", Actor: r.tierPID, Store: r.store}}
		}
		return tiers
	}
	r.prefillTime, r.beforeStep, r.bulk.chunkTime = slowPrefill, before, 100*time.Microsecond
	buildCluster(r.cluster, size{64, 8}, size{64, 8}, mw...)
	return r
}

// runFetched runs a sequence at the second replica next to one that decodes. The first replica
// holds the first blocks of the sequence. The tier of the second replica holds as many of the
// leading blocks as below says. runFetched checks the tokens of both sequences and returns the
// change of the second replica's counters.
func (r *tierCluster) runFetched(what string, below int, prepare func(first int)) (s *messages.ReplicaStatus) {
	r.t.Helper()
	seq, companionSeq := sampled(5, 90, 4), sampled(9, 7, 40) // the second one has no full block at the start
	want, other := r.reference(seq), r.reference(companionSeq)
	if r.routeTo = r.b; below > 0 {
		start := sampled(5, 90, 1)
		start.Prompt = start.Prompt[:8*below+1]
		c := r.open(start)
		r.waitFor("the first blocks' end", c.done)
		r.a, r.b = r.b, r.a
		r.offloadAll()
		r.a, r.b = r.b, r.a
	}
	r.routeTo = r.a
	r.checkOutcome(r.open(seq), want)
	r.routeTo = r.b
	companion := r.open(companionSeq)
	r.waitFor("the second sequence to decode", func() bool { return len(companion.Output()) > 2 })
	before := r.status(r.b)
	prepare(r.bulk.sent + 1)
	got := r.open(seq)
	r.checkOutcome(got, want)
	r.checkOutcome(companion, other)
	if r.t.Failed() {
		r.t.Error(what)
	}
	time.Sleep(15 * time.Second) // all timeouts have passed
	s = r.status(r.b)
	if s.GetIncarnation() != before.GetIncarnation() {
		return s
	}
	return &messages.ReplicaStatus{
		KvFetched:            s.GetKvFetched() - before.GetKvFetched(),
		KvFetchFailed:        s.GetKvFetchFailed() - before.GetKvFetchFailed(),
		KvRestored:           s.GetKvRestored() - before.GetKvRestored(),
		KvStepsAborted:       s.GetKvStepsAborted() - before.GetKvStepsAborted(),
		KvRestoresOverlapped: s.GetKvRestoresOverlapped() - before.GetKvRestoresOverlapped(),
		TokensCached:         s.GetTokensCached() - before.GetTokensCached(),
	}
}

// spreadTransfer spreads the transfer of blocks over three steps. The sequence starts with the
// second step, which thus waits for the last third.
func (r *tierCluster) spreadTransfer(blocks int) {
	r.bulk.chunkTime = 3 * stepTime / time.Duration(blocks*modelLayers)
}

// TestFetchOverlapsPrefill checks that fetched blocks arrive layer by layer and that the step that
// needs them starts before the last layer, also if the leading blocks are in a local tier.
func TestFetchOverlapsPrefill(t *testing.T) {
	for _, below := range []int{0, 2, fetchable - 1} {
		t.Run(fmt.Sprint(below, " blocks in the local tier"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waited atomic.Bool // a step with a gate started while chunks were missing
				var r *tierCluster
				r = newLayeredCluster(t, func(batch []engine.Sequence) {
					if slices.ContainsFunc(batch, gated) {
						r.bulk.mu.Lock()
						defer r.bulk.mu.Unlock()
						waited.Store(waited.Load() || len(r.bulk.open) > 0)
					}
				})
				remote, first := uint64(fetchable-below), 0
				s := r.runFetched("undisturbed", below, func(n int) {
					first = n
					r.spreadTransfer(int(remote))
				})
				if !waited.Load() || s.GetKvRestoresOverlapped() != 1 || s.GetKvStepsAborted() != 0 {
					t.Errorf("overlapped: %v, %v", waited.Load(), s)
				}
				if s.GetKvFetched() != remote || s.GetKvFetchFailed() != 0 || s.GetKvRestored() != uint64(below) ||
					r.bulk.sent+1-first != int(remote)*modelLayers {
					t.Errorf("%d chunks sent: %v", r.bulk.sent+1-first, s)
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}

// gateTimer measures how long the first step with a gate takes.
type gateTimer struct {
	mu          sync.Mutex
	gated, next time.Time // start of its computation and of the next step's
}

func (w *gateTimer) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gated, w.next = time.Time{}, time.Time{}
}

func (w *gateTimer) step(batch []engine.Sequence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case slices.ContainsFunc(batch, gated):
		w.gated = time.Now()
	case !w.gated.IsZero() && w.next.IsZero():
		if w.next = time.Now(); slices.ContainsFunc(batch, prefills) {
			w.next = w.next.Add(-slowPrefill)
		}
	}
}

func (w *gateTimer) waited() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next.Sub(w.gated) - stepTime
}

// TestFetchOverlapFaults injects faults into fetches that a step waits for. All sequences must get
// their tokens, and the blocks that arrived must be used.
func TestFetchOverlapFaults(t *testing.T) {
	// The fetch starts together with a step. A fault comes after the sequence has started with the
	// next step, and before that step computes.
	delay := func() { time.Sleep(stepTime + 2*time.Millisecond) }
	for name, fault := range map[string]func(r *tierCluster, at int){
		"the sender fails": func(r *tierCluster, at int) {
			r.bulk.fail = func(n int) error {
				if n == at {
					delay()
					return errors.New("gone")
				}
				return nil
			}
		},
		"the sender stalls": func(r *tierCluster, at int) {
			r.bulk.fail = func(n int) error {
				if n == at {
					return errStall
				}
				return nil
			}
		},
		"a byte is flipped": func(r *tierCluster, at int) {
			r.bulk.damage = func(n int, chunk []byte) {
				if n == at {
					delay()
					chunk[len(chunk)/2] ^= 4
				}
			}
		},
		"the wrong layer is sent": func(r *tierCluster, at int) {
			var before []byte
			r.bulk.damage = func(n int, chunk []byte) {
				if n == at && before != nil {
					delay()
					copy(chunk, before)
				}
				before = slices.Clone(chunk)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for below, layers := range map[int][]int{0: {0, 1, modelLayers - 1}, 3: {3}} {
					remote := fetchable - below
					for _, layer := range layers {
						block := 1 + layer%(remote-1)
						w := &gateTimer{}
						r := newLayeredCluster(t, w.step)
						s := r.runFetched(fmt.Sprintf("layer %d of block %d of %d", layer, block, remote), below,
							func(first int) {
								w.reset()
								fault(r, first+layer*remote+block)
							})
						aborted, came := uint64(1), 0
						if layer == 0 {
							aborted = 0 // the sequence starts once the first layer has arrived
						}
						if layer == modelLayers-1 {
							came = block
						}
						if s.GetKvFetched() != uint64(came) || s.GetKvFetchFailed() != uint64(remote-came) ||
							s.GetKvStepsAborted() != aborted || s.GetKvRestoresOverlapped() != 0 {
							t.Errorf("layer %d of block %d of %d: %v", layer, block, remote, s)
						}
						if waited := w.waited(); (waited > 0) != (name == "the sender stalls" && layer > 0) {
							t.Errorf("layer %d of block %d of %d: the step waited for %v", layer, block, remote, waited)
						}
						if cached := 8 * uint64(below+came); s.GetTokensCached() != cached {
							t.Errorf("layer %d of block %d of %d: %d cached tokens, want %d", layer, block,
								remote, s.GetTokensCached(), cached)
						}
						r.checkUnlocked()
						r.checkEmpty()
					}
				}
			})
		})
	}
}

// TestFetchStopsAfterDamagedLocalBlock checks that a damaged block in the local tier ends the fetch
// of the blocks that follow it, since they cannot be used.
func TestFetchStopsAfterDamagedLocalBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLayeredCluster(t, nil)
		first := 0
		s := r.runFetched("damage in the local tier", 3, func(n int) {
			first = n
			r.spreadTransfer(fetchable - 3)
			r.store.set(func(_ context.Context, b, l int) error {
				if b == 1 && l == 2 {
					time.Sleep(stepTime + 2*time.Millisecond) // the sequence has started
					return errDamage
				}
				return nil
			})
		})
		if s.GetKvFetched() != 0 || s.GetKvRestored() != 1 || s.GetKvStepsAborted() != 1 || s.GetTokensCached() != 8 {
			t.Errorf("%v", s)
		}
		if sent := r.bulk.sent + 1 - first; sent >= (fetchable-3)*modelLayers {
			t.Errorf("all %d chunks were sent, although they are useless", sent)
		}
		r.checkUnlocked()
		r.checkEmpty()
	})
}

// TestFetchOverlapCrashes crashes the sender or the receiver while a step waits for a fetch.
// Nothing must be lost, and all resources must be released.
func TestFetchOverlapCrashes(t *testing.T) {
	for name, tc := range map[string]struct {
		on    string
		sends bool // the holder is stopped
	}{
		"the sender stops":         {sends: true},
		"the receiver, step":       {on: "*messages.RunStepResult"},
		"the receiver, restored":   {on: "*messages.CopyFoundBlocksResult"},
		"the remote tier, leased":  {on: "*kvblock.leaseDone"},
		"the remote tier, fetched": {on: "*messages.BlocksFetched"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := &trigger{on: tc.on}
				var prepared atomic.Bool
				arm := func(batch []engine.Sequence) {
					if slices.ContainsFunc(batch, gated) && prepared.CompareAndSwap(true, false) {
						crash.armed.Store(true)
					}
				}
				r := newLayeredCluster(t, arm, crash.middleware)
				r.runFetched(name, 2, func(first int) {
					r.spreadTransfer(fetchable - 2)
					if tc.sends {
						r.bulk.fail = func(n int) error {
							if n == first+20 {
								r.stop(r.a)
								return errStall
							}
							return nil
						}
					}
					prepared.Store(tc.on != "")
				})
				if crash.fired.Load() != (tc.on != "") {
					t.Errorf("crashed: %v", crash.fired.Load())
				}
				r.checkUnlocked()
				r.checkEmpty()
			})
		})
	}
}
