package node_test

import (
	"sync/atomic"
	"testing"
	"time"

	core "troupe/core/replica"
	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
)

// faultOf returns the replicas of the model and the one that is faulty, if any.
func faultOf(t *testing.T, n *node.Node) (all []*messages.ReplicaStatus, faulty *messages.ReplicaStatus) {
	t.Helper()
	d, err := n.Backend().Deployment(t.Context(), "kjv")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.GetReplicas() {
		if r.GetFault() != nil {
			faulty = r
		}
	}
	return d.GetReplicas(), faulty
}

// TestHungStep checks that streams continue elsewhere with the same tokens when a step of their
// replica hangs, that the replica gets no further requests, and that it returns once its step ends.
func TestHungStep(t *testing.T) {
	t.Parallel() // it mostly waits
	var hangs atomic.Bool
	release := make(chan struct{})
	inject := func(string) error {
		if hangs.Load() {
			<-release
		}
		return nil
	}
	n := start(t, func(c *node.Config) {
		c.Devices = []host.Config{{Index: 0, MemoryBytes: 256 << 20, Inject: inject},
			{Index: 1, MemoryBytes: 256 << 20}}
		c.Deployments = []*messages.DeploymentSpec{kjvSpec(2)}
		c.Watch = &core.Watch{StepTimeout: 10 * time.Second, HungTimeout: time.Hour}
	})
	const many, tokens = 8, 20 // more streams only make steps larger
	awaitServing(t, n, 1, 1)
	want := completeMany(t, n, many, tokens)
	hangs.Store(true)
	got := completeMany(t, n, many, tokens)
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("stream %d: got %q, want %q", i, got[i], want[i])
		}
	}
	var faulty *messages.ReplicaStatus
	waitFor(t, "a faulty replica", func() bool { _, faulty = faultOf(t, n); return faulty != nil })
	if faulty.GetGpu() != "gpu-0" || faulty.GetHungSteps() != 1 || faulty.GetFault().GetFinal() {
		t.Fatalf("the faulty replica: %v", faulty)
	}
	if f := n.Backend().Faults(t.Context())[faulty.GetName()]; f.GetDetail() != faulty.GetFault().GetDetail() {
		t.Errorf("the tree shows the fault %v, want %v", f, faulty.GetFault())
	}
	steps := faulty.GetSteps()
	completeMany(t, n, many, tokens)
	if _, still := faultOf(t, n); still.GetSteps() != steps || still.GetRunning()+still.GetWaiting() > 0 {
		t.Errorf("a faulty replica got requests: %v", still)
	}
	hangs.Store(false)
	close(release)
	waitFor(t, "the replica to return", func() bool {
		_, faulty := faultOf(t, n)
		return faulty == nil
	})
	awaitServing(t, n, 1, 1)
	completeMany(t, n, many, tokens)
}
