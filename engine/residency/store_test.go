package residency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/residency"
)

// slowLoader blocks its first load until it is cancelled.
type slowLoader struct {
	fakeModel
	begun chan struct{} // closed when the first load has begun
}

func (f slowLoader) Load(ctx context.Context, d cuda.Device, path string) (engine.Weights, error) {
	select {
	case <-f.begun:
		return f.fakeModel.Load(ctx, d, path)
	default:
		close(f.begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// TestWaiterLoadsAfterCancelledLoad checks that a call that waits for another call's load loads the
// model itself when that load is cancelled.
func TestWaiterLoadsAfterCancelledLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		f := slowLoader{begun: make(chan struct{})}
		h := residency.NewStore(d, f)
		spec := engine.LoadSpec{Lease: "m", BlockTokens: 16, KVBlocks: 4}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := h.Load(ctx, spec); first <- err }()
		<-f.begun
		go func() { _, err := h.Load(t.Context(), spec); second <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled load: %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("waiting load: %v", err)
		}
		if _, err := h.Unload("m"); err != nil || h.Loads() != 2 {
			t.Errorf("%d loads, unload: %v", h.Loads(), err)
		}
	})
}
