package node_test

import (
	"sync"
	"testing"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
)

// TestReplicaShrinksAndGrows checks that a model gives up KV blocks for a second model while
// streams run, and gets them back under memory pressure when the second model is deleted. The
// streams must get the same tokens.
func TestReplicaShrinksAndGrows(t *testing.T) {
	want := undisturbedStreams(t)
	n, g := startGated(t, 5, func(c *node.Config) {
		c.Devices, c.Deployments = []host.Config{{MemoryBytes: 50 << 20}}, nil
	})
	first, second := lightSpec(t, 1), lightSpec(t, 1)
	first.MaxSequences, second.MaxSequences = new(uint32(16)), new(uint32(16))
	deploy(t, n, first)
	before := replica(t, n, "kjv").GetKvBlocks()
	texts := make(chan []string, 1)
	go func() { texts <- completeStreams(t, n) }()
	g.await(t)
	second.Name = "second"
	if _, err := n.PutDeployment(t.Context(), second, 0); err != nil {
		t.Fatal(err)
	}
	loading := func() *messages.DeploymentStatus {
		d, _ := n.Backend().Deployment(t.Context(), "second") // empty until the node knows of it
		return d
	}
	waitFor(t, "a replica of the second model", func() bool { return len(loading().GetReplicas()) == 1 })
	g.open() // so that the streams run while it asks for memory
	waitFor(t, "the second model to serve", func() bool {
		return loading().GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
	})
	waitFor(t, "the first model to give up blocks", func() bool { return replica(t, n, "kjv").GetKvBlocks() < before })
	during := replica(t, n, "kjv").GetKvBlocks()
	t.Logf("kjv has %d KV blocks, %d next to a second model with %d", before, during,
		replica(t, n, "second").GetKvBlocks())
	for i, got := range <-texts {
		if got != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got, want[i])
		}
	}
	if got := complete(t, n,
		map[string]any{"model": "second", "prompt": "And", "max_tokens": 4}); got.Usage.CompletionTokens == 0 {
		t.Error("the second model does not serve")
	}
	checkMemorySum(t, n)

	if err := n.Backend().DeleteDeployment(t.Context(), "second", false); err != nil {
		t.Fatal(err)
	}
	var again sync.WaitGroup
	defer again.Wait()
	enough := make(chan struct{})
	stop := sync.OnceFunc(func() { close(enough) })
	defer stop()
	for range 4 { // more than fits
		again.Go(func() {
			for {
				for i, got := range completeStreams(t, n) {
					if got != want[i] {
						t.Errorf("stream %d: got %q, want %q", i, got, want[i])
					}
				}
				select {
				case <-enough:
					return
				default:
				}
			}
		})
	}
	waitFor(t, "it grows", func() bool { return replica(t, n, "kjv").GetKvBlocks() > during })
	stop()
	again.Wait()
	t.Logf("kjv has %d KV blocks at the end", replica(t, n, "kjv").GetKvBlocks())
	checkMemorySum(t, n)
}

// checkMemorySum checks that leased and free memory add up.
func checkMemorySum(t *testing.T, n *node.Node) {
	t.Helper()
	gpus, err := n.Status().LocalGPUs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := gpus[0].GetFreeBytes()
	for _, l := range gpus[0].GetLeases() {
		sum += uint64(l.GetPages()) << 21
	}
	if sum != gpus[0].GetMemoryBytes() {
		t.Errorf("%d bytes of %d: %v", sum, gpus[0].GetMemoryBytes(), gpus[0])
	}
}
