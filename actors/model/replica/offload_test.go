package replica_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica"
	"troupe/core/kv"
	"troupe/cuda/host"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/testkit"
)

// gatedStore is a store whose writes wait until its gate is open.
type gatedStore struct {
	kvstore.Store
	gate    chan struct{}
	waiting atomic.Int32
}

func (g *gatedStore) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	g.waiting.Add(1)
	<-g.gate
	return g.Store.Fill(ctx, slot, h, bytes, from)
}

// addGatedTier gives the cluster's replicas a tier that accepts every block.
func (c *cluster) addGatedTier(watermark float64) *gatedStore {
	d, err := host.Open(host.Config{MemoryBytes: 1 << 20})
	if err != nil {
		c.t.Fatal(err)
	}
	memory, err := d.AllocHost(4 << 20)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = d.Close() })
	const slab = 32 << 10 // room for one block of the test's model
	store := &gatedStore{Store: kvstore.NewArena(memory, slab), gate: make(chan struct{})}
	taken := uint32(0)
	answer := func(m proto.Message) proto.Message {
		switch m := m.(type) {
		case *messages.LockBlocks:
			return &messages.LockBlocksResult{RequestId: m.GetRequestId()}
		case *messages.ReserveSlots:
			reserved := &messages.SlotsReserved{}
			for _, h := range m.GetHashes() {
				reserved.Slots = append(reserved.Slots, &messages.Block{Hash: h, Index: taken})
				taken += slab / kv.SlotUnit
			}
			return &messages.ReserveSlotsResult{RequestId: m.GetRequestId(),
				Outcome: &messages.ReserveSlotsResult_Reserved{Reserved: reserved}}
		}
		return nil
	}
	c.tiers = func(name string) replica.Tiers {
		actor := testkit.NewPeer(c.t, c.sys, name+"-dram", answer).PID
		return replica.Tiers{
			Lower: []replica.Tier{{Name: "dram", Actor: actor, Store: store}}, Watermark: watermark,
		}
	}
	return store
}

// TestStepsDoNotWaitForOffload checks that a sequence takes exactly as long as without tiers, even
// though blocks above the watermark wait for a tier that accepts none. In the bubble, only steps
// take time.
func TestStepsDoNotWaitForOffload(t *testing.T) {
	run := func(c *cluster) (took time.Duration) {
		buildCluster(c, size{64, 8}, size{64, 8})
		began := time.Now()
		s := c.open(sampled(5, 90, 60))
		c.waitFor("its end", s.done)
		return time.Since(began)
	}
	fresh := func(t *testing.T) *cluster {
		return &cluster{t: t, settle: synctest.Wait, stepTime: stepTime, bulk: &bulk{}}
	}
	var alone time.Duration
	synctest.Test(t, func(t *testing.T) { alone = run(fresh(t)) })
	synctest.Test(t, func(t *testing.T) {
		c := fresh(t)
		store := c.addGatedTier(0.1)
		open := sync.OnceFunc(func() { close(store.gate) })
		defer open()
		took := run(c)
		if store.waiting.Load() == 0 {
			t.Error("no block was offloaded: the test shows nothing")
		}
		if took != alone {
			t.Errorf("it took %v, without tiers %v", took, alone)
		}
		open()
		c.waitFor("an offload", func() bool { return c.status(c.a).GetKvOffloaded() > 0 })
		c.checkEmpty()
	})
}

// TestBurstOffloadsBeforeEviction checks that blocks that a burst of allocations evicts were
// offloaded to the tier before, regardless of the watermark.
func TestBurstOffloadsBeforeEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTierCluster(t, 1<<20, 0, nil) // the watermark and the idle steps offload nothing
		for salt := range uint32(6) {         // each takes 25 of 64 blocks within seven steps
			seq := sampled(salt, 200, 4)
			r.checkOutcome(r.open(seq), r.reference(seq))
		}
		seq := sampled(0, 200, 4)
		r.checkOutcome(r.open(seq), r.reference(seq))
		if s := r.status(r.a); s.GetKvOffloaded() == 0 || s.GetKvRestored() == 0 {
			t.Errorf("%d blocks were offloaded and %d restored: %v", s.GetKvOffloaded(), s.GetKvRestored(), s)
		}
		r.checkUnlocked()
		r.checkEmpty()
	})
}
