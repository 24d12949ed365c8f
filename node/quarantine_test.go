package node_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// breakable is the first of two software GPUs, which can be lost.
type breakable struct {
	after atomic.Int64 // launches and copies until it is lost; below zero it is not
	lost  atomic.Bool
}

func (b *breakable) inject(string) error {
	if b.after.Load() >= 0 && b.after.Add(-1) < 0 {
		b.lost.Store(true)
	}
	if b.lost.Load() {
		return cuda.ErrDeviceLost
	}
	return nil
}

func (b *breakable) config(c *node.Config) {
	b.after.Store(-1)
	c.Devices = []host.Config{{Index: 0, MemoryBytes: 256 << 20, Inject: b.inject}, {Index: 1, MemoryBytes: 256 << 20}}
	c.Deployments = []*messages.DeploymentSpec{kjv(2)}
	c.Wrap = func(_ string, p *actor.Props) *actor.Props {
		return p.Configure(actor.WithReceiverMiddleware(testkit.Wire))
	}
}

func gpu(t *testing.T, n *node.Node, i int) *messages.GpuStatus {
	t.Helper()
	all, err := n.Gpus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[i]
}

// serve waits until so many replicas serve on each GPU.
func serve(t *testing.T, n *node.Node, want ...int) {
	t.Helper()
	until(t, "the replicas serve where they should", func() bool {
		d, err := n.Deployment(t.Context(), "kjv")
		if err != nil {
			return false
		}
		on := make([]int, len(want))
		for _, r := range d.GetReplicas() {
			if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
				on[int(r.GetGpu()[len("gpu-")]-'0')]++
			}
		}
		for i := range want {
			if on[i] != want[i] {
				return false
			}
		}
		return true
	})
}

// TestDeviceLost: a GPU is lost while streams run on it. They go on elsewhere with the tokens they would have had, the GPU is quarantined
// and emptied, and is used again once it is released.
func TestDeviceLost(t *testing.T) {
	b := &breakable{}
	n := start(t, b.config)
	serve(t, n, 1, 1)
	want := run(t, n)
	b.after.Store(400) // some steps of the streams that come now
	got := run(t, n)
	if !b.lost.Load() {
		t.Fatal("the streams ended before the device was lost")
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got[i], want[i])
		}
	}
	serve(t, n, 0, 2)
	until(t, "the lost GPU is empty", func() bool { return len(gpu(t, n, 0).GetLeases()) == 0 })
	g := gpu(t, n, 0)
	if q := g.GetQuarantine(); g.GetState() != messages.GpuState_GPU_STATE_QUARANTINED || q.GetCause() != messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST ||
		!strings.Contains(q.GetDetail(), "device lost") || g.GetFreeBytes() != g.GetMemoryBytes() || len(n.Holders()[0].Held()) != 0 {
		t.Errorf("%v, held: %v", g, n.Holders()[0].Held())
	}
	release := &messages.ReleaseGpuRequest{Node: "test", Name: "gpu-0"}
	if _, err := n.ReleaseGpu(t.Context(), release); err == nil || !strings.Contains(err.Error(), "self-test failed") {
		t.Errorf("it is lost still, and was released: %v", err)
	}
	b.lost.Store(false)
	if g, err := n.ReleaseGpu(t.Context(), release); err != nil || g.GetState() == messages.GpuState_GPU_STATE_QUARANTINED {
		t.Fatalf("%v, %v", g, err)
	}
	deploy(t, n, kjv(3))
	serve(t, n, 1, 2)
}

// TestQuarantine: by the operator's word a GPU that works is emptied, and nobody notices.
func TestQuarantine(t *testing.T) {
	b := &breakable{}
	n := start(t, b.config)
	serve(t, n, 1, 1)
	want := run(t, n)
	done := make(chan []string)
	go func() { done <- run(t, n) }()
	g, err := n.QuarantineGpu(t.Context(), &messages.QuarantineGpuRequest{Node: "test", Name: "gpu-0", Detail: "it is to be replaced"})
	if q := g.GetQuarantine(); err != nil || q.GetDetail() != "by operator request: it is to be replaced" {
		t.Fatalf("%v, %v", g, err)
	}
	for i, got := range <-done {
		if got != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got, want[i])
		}
	}
	serve(t, n, 0, 2)
	until(t, "the GPU is empty", func() bool { return len(gpu(t, n, 0).GetLeases()) == 0 })
	if _, err := n.QuarantineGpu(t.Context(), &messages.QuarantineGpuRequest{Node: "test", Name: "gpu-7"}); err == nil {
		t.Error("there is no gpu-7")
	}
	if g, err := n.ReleaseGpu(t.Context(), &messages.ReleaseGpuRequest{Node: "test", Name: "gpu-0", Untested: true}); err != nil || g.GetQuarantine() != nil {
		t.Errorf("%v, %v", g, err)
	}
}
