package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// TestEndComesBeforeProgress checks that a request ends when its time is up or its client has left,
// even if there is progress too.
func TestEndComesBeforeProgress(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 50 {
		gen := &generation{wake: make(chan struct{}, 1)}
		late := make(chan time.Time, 1)
		gen.wake <- struct{}{}
		late <- time.Time{}
		if err := gen.await(t.Context(), late); asError(err).Reason != messages.Reason_REASON_DEADLINE {
			t.Fatalf("time is up: %v", err)
		}
		if err := gen.await(left, make(chan time.Time)); asError(err).Reason != messages.Reason_REASON_CANCELLED {
			t.Fatalf("the client has left: %v", err)
		}
	}
}

// countingRuntime counts the goroutines that it starts.
type countingRuntime struct {
	supervise.Runtime
	started atomic.Int32
}

func (r *countingRuntime) Go(f func()) { r.started.Add(1); r.Runtime.Go(f) }

// TestRuntimeOrdersWaitersOfALoad checks that each request that waits for a model continues in a
// goroutine of the runtime, which thus determines their order.
func TestRuntimeOrdersWaitersOfALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, release := &countingRuntime{Runtime: supervise.System}, make(chan struct{})
		inspect := func(backend.Kind, string) (engine.ModelInfo, error) {
			<-release
			return engine.ModelInfo{}, errors.New("test")
		}
		cache := modelCache{rt: rt, digests: new(digest.Cache), inspect: inspect}
		folder := t.TempDir()
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				d := &messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: "m", Path: folder}}
				if _, err := cache.get(t.Context(), d); err == nil {
					t.Error("a model was loaded")
				}
			})
			synctest.Wait()
			if rt.started.Load() != 1 {
				t.Errorf("%d goroutines for one load", rt.started.Load())
			}
		}
		close(release)
		waiting.Wait()
		if n := rt.started.Load(); n != 4 {
			t.Errorf("%d goroutines for a load and three requests, want 4", n)
		}
	})
}
