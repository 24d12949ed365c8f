package residency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	core "troupe/core/residency"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/residency"
)

// oneModel is a model of 1 MiB whose loads can be held.
type oneModel struct {
	fakeModel
	hold    func(ctx context.Context) // called by each load with its context, before it returns
	address map[cuda.Ptr]bool         // of the weights in memory
}

type oneWeights struct {
	fakeModel
	of *oneModel
	d  cuda.Device
	at cuda.Ptr
}

func (o *oneModel) Load(ctx context.Context, d cuda.Device, _ string) (engine.Weights, error) {
	at, err := d.Alloc(1 << 20)
	if err != nil {
		return nil, err
	}
	if o.hold != nil {
		o.hold(ctx)
	}
	o.address[at] = true
	return oneWeights{of: o, d: d, at: at}, nil
}

func (w oneWeights) Digests() engine.Digests { return engine.Digests{Weights: "w", Revision: "r"} }

func (w oneWeights) Free() error {
	delete(w.of.address, w.at)
	return w.d.Free(w.at)
}

func open(t *testing.T, f engine.Loader) (cuda.Device, *residency.Store) {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, residency.NewStore(d, f)
}

func spec(lease string) engine.LoadSpec {
	return engine.LoadSpec{Lease: lease, BlockTokens: 16, KVBlocks: 4}
}

// TestLeasesShareWeights checks that two leases use one copy, that the copy survives both, that it
// cannot be freed before, and that a handle opens only its own lease.
func TestLeasesShareWeights(t *testing.T) {
	f := &oneModel{address: make(map[cuda.Ptr]bool)}
	d, s := open(t, f)
	content, err := s.LoadWeights(t.Context(), 1, core.Source{Path: "m"}, "")
	if err != nil || content != (core.Content{Weights: "w", Revision: "r"}) {
		t.Fatal(content, err)
	}
	for _, lease := range []string{"m-0", "m-1"} {
		l, err := s.Lease(spec(lease), 1, "secret of "+lease)
		if err != nil || l.Copy != 1 || l.Digests.Revision != "r" {
			t.Fatal(l, err)
		}
	}
	if _, err := s.Lease(spec("m-0"), 1, "another"); err == nil {
		t.Error("a lease was granted twice")
	}
	if _, err := s.Lease(spec("n-0"), 2, "n"); err == nil {
		t.Error("a lease of weights that are not there")
	}
	for _, wrong := range []string{"", "m-0", "another"} {
		if _, err := s.OpenBlocks(wrong); err == nil {
			t.Errorf("handle %q opened a lease", wrong)
		}
	}
	b, err := s.OpenBlocks("secret of m-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range []string{"m-0", "m-1"} {
		if err := s.FreeWeights(1); err == nil {
			t.Fatal("weights in use were freed")
		}
		if lease == "m-1" {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Unload(lease); err != nil {
			t.Fatal(err)
		}
	}
	free, total := d.Memory()
	if total-free != 1<<20 || len(s.Copies()) != 1 || s.Loads() != 1 {
		t.Errorf("%d bytes taken, %v, %d loads", total-free, s.Copies(), s.Loads())
	}
	if i, err := s.Inspect("gone", "r"); err != nil || i.Revision != "r" {
		t.Errorf("weights on the device, by digest: %+v, %v", i, err)
	}
	if err := s.FreeWeights(1); err != nil || len(s.Copies()) != 0 {
		t.Error(err, s.Copies())
	}
	if free, total := d.Memory(); free != total {
		t.Errorf("%d bytes are left", total-free)
	}
}

// TestLoadWaitsForCancelledLoad checks that a load waits until one that was cancelled has freed its
// memory, and that a cancelled load leaves no copy even if its loader succeeds.
func TestLoadWaitsForCancelledLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := &oneModel{address: make(map[cuda.Ptr]bool)}
		held := 0
		f.hold = func(context.Context) {
			if held++; held == 1 {
				<-release
			}
		}
		d, s := open(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := s.LoadWeights(ctx, 1, core.Source{}, ""); first <- err }()
		synctest.Wait()
		cancel()
		go func() { _, err := s.LoadWeights(t.Context(), 1, core.Source{}, ""); second <- err }()
		synctest.Wait()
		if held != 1 {
			t.Fatal("a load began before the cancelled one had ended")
		}
		close(release)
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled load: %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("waiting load: %v", err)
		}
		if free, total := d.Memory(); total-free != 1<<20 || len(s.Copies()) != 1 {
			t.Errorf("%d bytes taken by %v", total-free, s.Copies())
		}
	})
}

// TestLoadOfOtherRevisionIsFreed checks that files with another digest than the one asked for leave
// nothing on the device.
func TestLoadOfOtherRevisionIsFreed(t *testing.T) {
	f := &oneModel{address: make(map[cuda.Ptr]bool)}
	d, s := open(t, f)
	_, err := s.LoadWeights(t.Context(), 1, core.Source{Path: "m", Revision: "other"}, "")
	mismatch := (*engine.RevisionMismatch)(nil)
	if !errors.As(err, &mismatch) || mismatch.Found.Revision != "r" {
		t.Errorf("%v", err)
	}
	if free, total := d.Memory(); free != total || len(s.Copies()) != 0 {
		t.Errorf("%d bytes are left, %v", total-free, s.Copies())
	}
}
