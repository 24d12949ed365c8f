package node_test

import (
	"sync"
	"testing"

	"troupe/core/hbm"
	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// TestAdapterPagesGrowAndShrink checks that the adapters of a model get free pages while it serves, and give
// them up for a second model that fills the device, while sequences with adapters run. All get their golden
// outputs. When the second model is deleted, the pages come back.
func TestAdapterPagesGrowAndShrink(t *testing.T) {
	n := start(t, func(c *node.Config) {
		c.Devices = []host.Config{{MemoryBytes: 64 << 20}}
		c.KVReserve = map[string]float64{"": 0.05}
		first := c.Deployments[0]
		first.MaxSequences, first.KvBlocks, first.AdapterPages = new(uint32(8)), new(uint32(64)), new(uint32(1))
	})
	before := gpuStatus(t, n, 0)
	lease := func(kind string) *messages.GpuLease {
		for _, l := range gpuStatus(t, n, 0).GetLeases() {
			if l.GetOwner() == "kjv-0" && l.GetKind() == kind {
				return l
			}
		}
		t.Fatalf("no lease for %s", kind)
		return nil
	}
	if l := lease("adapters"); l.GetPages() != 1 || l.GetMinPages() != 1 {
		t.Fatalf("the model starts with %v", l)
	}
	grow := func() {
		waitFor(t, "pages for three adapters", func() bool {
			generateMixed(t, n, 1)
			return lease("adapters").GetPages() == 3
		})
		if l := lease("adapters"); l.GetMinPages() != 1 {
			t.Errorf("the minimum has changed: %v", l)
		}
		checkMemorySum(t, n)
	}
	grow()

	second := kjvSpec(1) // shares the weights, and needs all pages that were free before
	second.Name, second.Path, second.MaxSequences = "second", testkit.Model(), new(uint32(8))
	block := lease("kv").GetBytes() / 64
	free := before.GetFreeBytes() - uint64(lease("workspace").GetPages())*hbm.PageBytes
	second.KvBlocks = new(uint32(free / block))
	var running sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	defer running.Wait()
	defer end()
	running.Go(func() {
		for {
			generateMixed(t, n, 2)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	deploy(t, n, second)
	if l := lease("adapters"); l.GetPages() != 1 {
		t.Errorf("beside the second model: %v", l)
	}
	checkMemorySum(t, n)
	if got := complete(t, n,
		map[string]any{"model": "second", "prompt": "And", "max_tokens": 4}); got.Usage.CompletionTokens == 0 {
		t.Error("the second model does not serve")
	}
	end()
	running.Wait()
	if err := n.Backend().DeleteDeployment(t.Context(), "second", false); err != nil {
		t.Fatal(err)
	}
	grow()
}
