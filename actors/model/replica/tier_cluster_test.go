package replica_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/kvblock"
	"troupe/actors/model/replica"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/testkit"
)

var errDisk = errors.New("input/output error")

// faultyStore is a store that reads blocks one by one, so that a test can inject a fault into any
// part of any block.
type faultyStore struct {
	kvstore.Store
	mu    sync.Mutex
	reads map[int]int // number of blocks read, by the offset of the part
	// fault is called before a part of a block is read. errDamage flips a bit. Nil: no calls.
	fault func(ctx context.Context, block, layer int) error
	took  func(bytes int) // called before each read
}

func newFaulty(t *testing.T) *faultyStore {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := d.AllocHost(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return &faultyStore{Store: kvstore.NewArena(memory, 1<<20), reads: map[int]int{}}
}

var errDamage = errors.New("a bit is to flip")

func (f *faultyStore) Depth() int { return 1 }

func (f *faultyStore) ViewRange(ctx context.Context, r *kvstore.Reading, from, to int, use func([]byte) error) error {
	f.mu.Lock()
	block, fault := f.reads[from], f.fault
	f.reads[from]++
	f.mu.Unlock()
	if f.took != nil {
		f.took(to - from)
	}
	if fault != nil {
		switch err := fault(ctx, block, from/layerBytes); {
		case errors.Is(err, errDamage):
			same := &kvstore.Reading{Slot: r.Slot, Hash: r.Hash, Bytes: r.Bytes}
			if err := f.Store.ViewRange(ctx, same, from, to,
				func(b []byte) error { b[len(b)/2] ^= 1; return nil }); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return f.Store.ViewRange(ctx, r, from, to, use)
}

// set injects a fault into the reads from now on.
func (f *faultyStore) set(fault func(ctx context.Context, block, layer int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads, f.fault = map[int]int{}, fault
}

// tierCluster is a cluster whose first replica restores from a tier that the test controls.
type tierCluster struct {
	*cluster
	store   *faultyStore
	tierPID *actor.PID
}

func newTierCluster(t *testing.T, partBytes int, prefill time.Duration, before func([]engine.Sequence),
	mw ...actor.ReceiverMiddleware) *tierCluster {
	t.Helper()
	return newTierClusterWith(t, replica.Tiers{Restore: kv.RestoreAlways, PartBytes: partBytes}, prefill, before, mw...)
}

// newTierClusterWith is like newTierCluster, with other options.
func newTierClusterWith(t *testing.T, tiers replica.Tiers, prefill time.Duration, before func([]engine.Sequence),
	mw ...actor.ReceiverMiddleware) *tierCluster {
	t.Helper()
	r := &tierCluster{store: newFaulty(t),
		cluster: &cluster{t: t, settle: synctest.Wait, stepTime: stepTime, prefillTime: prefill,
			bulk: &bulk{chunkTime: time.Millisecond}, beforeStep: before}}
	r.tiers = func(name string) replica.Tiers {
		tiers := tiers
		tiers.Watermark, tiers.IdleSteps = 1, 1<<40
		if name == "m-0" {
			r.tierPID = testkit.Spawn(t, r.sys, "dram", supervise.Strategy(nil),
				kvblock.TierProps(kvblock.TierConfig{Name: "dram", Store: r.store, Log: zerolog.Nop()}))
			tiers.Lower = []replica.Tier{{Name: "dram", Actor: r.tierPID, Store: r.store}}
		}
		return tiers
	}
	buildCluster(r.cluster, size{64, 8}, size{64, 8}, mw...)
	return r
}

// offloadAll offloads all blocks of the replica and empties HBM.
func (r *tierCluster) offloadAll() {
	r.t.Helper()
	for _, m := range []proto.Message{&messages.OffloadBlocks{RequestId: "down"},
		&messages.FlushBlocks{RequestId: "flush"}} {
		got := len(testkit.Got[*messages.BlocksMoved](r.operator))
		r.operator.Send(r.a.PID, m)
		r.waitFor("an answer to "+fmt.Sprint(m),
			func() bool { return len(testkit.Got[*messages.BlocksMoved](r.operator)) > got })
		if moved := testkit.Got[*messages.BlocksMoved](r.operator)[got]; moved.GetMoved() == nil {
			r.t.Fatalf("%v", moved)
		}
	}
}

// checkUnlocked checks that no block of the tier is locked: the tier can be flushed.
func (r *tierCluster) checkUnlocked() {
	r.t.Helper()
	flushes := 0
	status := func() *messages.SlotsStatus {
		flushes++
		r.operator.Send(r.tierPID, &messages.FlushBlocks{RequestId: fmt.Sprint("empty-", flushes)})
		got := len(testkit.Got[*messages.SlotsStatus](r.operator))
		r.operator.Send(r.tierPID, &messages.GetSlots{RequestId: "after"})
		r.waitFor("status of the tier", func() bool {
			return len(testkit.Got[*messages.SlotsStatus](r.operator)) > got
		})
		return testkit.Got[*messages.SlotsStatus](r.operator)[got]
	}
	r.waitFor("an empty tier", func() bool { s := status(); return s.GetTakenBytes() == 0 && s.GetResident() == 0 })
}

// runRestored runs a sequence whose first blocks are in the tier next to one that decodes, and
// checks the tokens of both.
func (r *tierCluster) runRestored(what string, prepare func()) *messages.ReplicaStatus {
	r.t.Helper()
	seq, companionSeq := sampled(5, 40, 4), sampled(9, 8, 25) // the second one has no full block at the start
	want, other := r.reference(seq), r.reference(companionSeq)
	r.store.set(nil)
	r.checkOutcome(r.open(seq), want)
	r.offloadAll()
	companion := r.open(companionSeq)
	r.waitFor("the second sequence to decode", func() bool { return len(companion.Output()) > 2 })
	prepare()
	got := r.open(seq)
	r.checkOutcome(got, want)
	r.checkOutcome(companion, other)
	if r.t.Failed() {
		r.t.Fatal(what)
	}
	return r.status(r.a)
}
