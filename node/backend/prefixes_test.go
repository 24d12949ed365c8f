package backend

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/store"
	"troupe/control/catalogue"
	"troupe/messages"
	"troupe/node/stored"
)

// pinned is a store with pins.
type pinned []*messages.PinnedPrefix

func (p pinned) WatchPins(ctx context.Context, apply func(store.PinChange)) error {
	for _, pin := range p {
		apply(store.PinChange{Name: pin.GetName(), Pin: pin})
	}
	apply(store.PinChange{Synced: true})
	<-ctx.Done()
	return nil
}

func prefixes(t *testing.T, pins ...*messages.PinnedPrefix) *Prefixes {
	t.Helper()
	p := &Prefixes{
		Pins: &stored.Pins{}, Secret: &stored.Secret{}, Catalogue: catalogue.New(), Log: zerolog.Nop(),
	}
	f := stored.NewFollowers(supervise.System, zerolog.Nop())
	t.Cleanup(f.Stop)
	if err := f.Follow(t.Context(), p.Pins.Watch(pinned(pins))); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPinsFollowCatalogue checks that the pin of an adapter's prefix has the current revision, and
// is left out while the adapter does not exist.
func TestPinsFollowCatalogue(t *testing.T) {
	p := prefixes(t, &messages.PinnedPrefix{Name: "a", Model: "m", Adapter: "psalms"},
		&messages.PinnedPrefix{Name: "b", Model: "m"}, &messages.PinnedPrefix{Name: "c", Model: "other"})
	check := func(after uint64, want ...string) uint64 {
		t.Helper()
		version, all := p.Pinned("m")
		if len(all) != len(want) || version <= after {
			t.Fatalf("version %d after %d: %v", version, after, all)
		}
		for i, p := range all {
			if p.GetAdapter() != want[i] {
				t.Errorf("%v, not of %q", p, want[i])
			}
		}
		return version
	}
	version := check(0, "")
	p.Catalogue.Apply(store.AdapterChange{
		Model: "m",
		Name:  "psalms",
		Spec:  &messages.AdapterSpec{Model: "m", Name: "psalms", Revision: 7},
		At:    7,
	})
	version = check(version, "psalms@7", "")
	if key, err := p.Revision("m", "psalms"); key != "psalms@7" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	p.Catalogue.Apply(store.AdapterChange{Model: "m", Name: "psalms", At: 8})
	check(version, "")
	if _, err := p.Revision("m", "psalms"); err == nil {
		t.Error("a deleted adapter has a revision")
	}
	if key, err := p.Revision("m", ""); key != "" || err != nil {
		t.Errorf("no adapter: %q, %v", key, err)
	}
}
