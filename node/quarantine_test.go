package node_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
)

// failingGPU is the first of two software GPUs; it can be lost.
type failingGPU struct {
	after atomic.Int64 // launches and copies before it is lost; negative: it is not
	lost  atomic.Bool
	spec  func(replicas uint32) *messages.DeploymentSpec // of the light model
}

func newFailingGPU(t *testing.T) *failingGPU {
	path := lightModel(t)
	return &failingGPU{spec: func(replicas uint32) *messages.DeploymentSpec {
		spec := kjvSpec(replicas)
		spec.Path = path
		return spec
	}}
}

func (b *failingGPU) inject(string) error {
	if b.after.Load() >= 0 && b.after.Add(-1) < 0 {
		b.lost.Store(true)
	}
	if b.lost.Load() {
		return cuda.ErrDeviceLost
	}
	return nil
}

func (b *failingGPU) config(c *node.Config) {
	b.after.Store(-1)
	c.Devices = []host.Config{{Index: 0, MemoryBytes: 256 << 20, Inject: b.inject}, {Index: 1, MemoryBytes: 256 << 20}}
	c.Deployments = []*messages.DeploymentSpec{b.spec(2)}
	c.Middleware = wired
}

func gpuStatus(t *testing.T, n *node.Node, i int) *messages.GpuStatus {
	t.Helper()
	all, err := n.Status().LocalGPUs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[i]
}

// awaitServing waits until each GPU has the given number of serving replicas.
func awaitServing(t *testing.T, n *node.Node, want ...int) {
	t.Helper()
	waitFor(t, "the replicas to serve on the expected GPUs", func() bool {
		d, err := n.Backend().Deployment(t.Context(), "kjv")
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

// TestDeviceLost checks that streams continue elsewhere with the same tokens when their GPU is
// lost, and that the GPU is quarantined, emptied, and used again after a release.
func TestDeviceLost(t *testing.T) {
	b := newFailingGPU(t)
	n := start(t, b.config)
	awaitServing(t, n, 1, 1)
	want := undisturbedStreams(t)
	b.after.Store(400) // fail a few steps after the next streams start
	got := completeStreams(t, n)
	if !b.lost.Load() {
		t.Fatal("the streams ended before the device was lost")
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got[i], want[i])
		}
	}
	awaitServing(t, n, 0, 2)
	waitFor(t, "the lost GPU to be empty", func() bool {
		g := gpuStatus(t, n, 0)
		return len(g.GetLeases()) == 0 && g.GetFreeBytes() == g.GetMemoryBytes() && len(n.Residency()[0].Held()) == 0
	})
	g := gpuStatus(t, n, 0)
	if q := g.GetQuarantine(); g.GetState() != messages.GpuState_GPU_STATE_QUARANTINED ||
		q.GetCause() != messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST ||
		!strings.Contains(q.GetDetail(), "device lost") {
		t.Errorf("%v", g)
	}
	release := &messages.ReleaseGpuRequest{Node: "test", Name: "gpu-0"}
	if _, err := n.Backend().ReleaseGpu(t.Context(), release); err == nil ||
		!strings.Contains(err.Error(), "self-test failed") {
		t.Errorf("a GPU that is still lost was released: %v", err)
	}
	b.lost.Store(false)
	if g, err := n.Backend().ReleaseGpu(t.Context(), release); err != nil ||
		g.GetState() == messages.GpuState_GPU_STATE_QUARANTINED {
		t.Fatalf("%v, %v", g, err)
	}
	deploy(t, n, b.spec(3))
	awaitServing(t, n, 1, 2)
}

// TestQuarantine checks that the operator's quarantine empties a healthy GPU and that streams get
// the same tokens.
func TestQuarantine(t *testing.T) {
	b := newFailingGPU(t)
	want := undisturbedStreams(t)
	n, gate := startGated(t, 20, b.config)
	awaitServing(t, n, 1, 1)
	done := make(chan []string)
	go func() { done <- completeStreams(t, n) }()
	gate.await(t)
	gate.open() // the streams have output, and not all of it
	g, err := n.Backend().QuarantineGpu(t.Context(),
		&messages.QuarantineGpuRequest{Node: "test", Name: "gpu-0", Detail: "it is to be replaced"})
	if q := g.GetQuarantine(); err != nil || q.GetDetail() != "by operator request: it is to be replaced" {
		t.Fatalf("%v, %v", g, err)
	}
	for i, got := range <-done {
		if got != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got, want[i])
		}
	}
	awaitServing(t, n, 0, 2)
	waitFor(t, "the GPU to be empty", func() bool { return len(gpuStatus(t, n, 0).GetLeases()) == 0 })
	unknown := &messages.QuarantineGpuRequest{Node: "test", Name: "gpu-7"}
	if _, err := n.Backend().QuarantineGpu(t.Context(), unknown); err == nil {
		t.Error("there is no gpu-7")
	}
	if g, err := n.Backend().ReleaseGpu(t.Context(),
		&messages.ReleaseGpuRequest{Node: "test", Name: "gpu-0", Untested: true}); err != nil ||
		g.GetQuarantine() != nil {
		t.Errorf("%v, %v", g, err)
	}
}
