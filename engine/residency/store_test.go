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

// slowLoader loads until it is told to end, the first time.
type slowLoader struct {
	fakeModel
	begun chan struct{} // closed once the first load has
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

// TestWaiterLoadsAfterCancelledLoad: who waits for a load that is told to end loads the model itself.
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
		life, end := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := h.Load(life, spec); first <- err }()
		<-f.begun
		go func() { _, err := h.Load(t.Context(), spec); second <- err }()
		synctest.Wait()
		end()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("who was told to end: %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("who waited for it: %v", err)
		}
		if _, err := h.Unload("m"); err != nil || h.Loads() != 2 {
			t.Errorf("%d loads, then %v", h.Loads(), err)
		}
	})
}
