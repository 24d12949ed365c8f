package store

import (
	"context"
	"errors"
	"testing"

	"troupe/messages"
)

// TestAdapterRevisions checks three properties. The revision is that of the registration and survives a
// change of the pin. Every write names the revision that it replaces. A watch delivers all
// adapters, also after the server was lost.
func TestAdapterRevisions(t *testing.T) {
	s, restart := open(t)
	put := func(spec *messages.AdapterSpec, at uint64) *messages.AdapterSpec {
		t.Helper()
		got, err := s.PutAdapter(t.Context(), spec, at)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := put(&messages.AdapterSpec{Model: "m", Name: "org/a.b", Path: "/1"}, 0)
	if _, err := s.PutAdapter(t.Context(), first, 0); !errors.Is(err, ErrConflict) {
		t.Errorf("over an unexpected adapter: %v", err)
	}
	first.Pinned = true
	if pinned := put(first, first.GetRevision()); pinned.GetRevision() != first.GetRevision() {
		t.Errorf("pinning changed the revision to %d, was %d", pinned.GetRevision(), first.GetRevision())
	}
	if err := s.DeleteAdapter(t.Context(), "m", "org/a.b", first.GetRevision()); !errors.Is(err, ErrConflict) {
		t.Errorf("deleted over a later change: %v", err)
	}
	got, at, err := s.Adapter(t.Context(), "m", "org/a.b")
	if err != nil || !got.GetPinned() || got.GetRevision() != first.GetRevision() || at <= got.GetRevision() {
		t.Fatalf("%v at %d, %v", got, at, err)
	}
	second := put(&messages.AdapterSpec{Model: "m", Name: "org/a.b", Path: "/2"}, at)
	if second.GetRevision() <= at {
		t.Errorf("registered again with old revision %d", second.GetRevision())
	}

	f := &recorder[*messages.AdapterSpec]{last: map[string]*messages.AdapterSpec{}}
	startWatch(t, func(ctx context.Context) error {
		return s.WatchAdapters(ctx, func(c AdapterChange) { f.record(c.Model+" "+c.Name, c.Spec, c.Synced) })
	})
	f.until(t, "the stored adapter",
		func() bool { return f.synced == 1 && f.last["m org/a.b"].GetRevision() == second.GetRevision() })
	restart()
	f.until(t, "all adapters again, after the server's restart", func() bool { return f.synced == 2 })
	if err := s.DeleteAdapter(t.Context(), "m", "org/a.b", second.GetRevision()); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the deletion", func() bool { return f.last["m org/a.b"] == nil })
	third := put(&messages.AdapterSpec{Model: "m", Name: "org/a.b"}, 0)
	if third.GetRevision() <= second.GetRevision() {
		t.Errorf("revision %d after %d", third.GetRevision(), second.GetRevision())
	}
	if _, err := s.kv.Put(t.Context(), "adapters.m/x", []byte(`{"name":"y","model":"m"}`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Adapter(t.Context(), "m", "x"); err == nil {
		t.Error("no error for a key that stores another adapter")
	}
	for _, name := range []string{"none", "a..b", "ä"} {
		if _, _, err := s.Adapter(t.Context(), "m", name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
