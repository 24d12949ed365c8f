package node

import (
	"testing"

	"troupe/cluster/store"
	"troupe/control/catalogue"
	"troupe/messages"
)

// TestPinsFollowCatalogue checks that the pin of an adapter's prefix has the current revision, and
// is left out while the adapter does not exist.
func TestPinsFollowCatalogue(t *testing.T) {
	n := &Node{catalogue: catalogue.New(), pins: pinSet{version: 1, byName: map[string]*messages.PinnedPrefix{
		"a": {Name: "a", Model: "m", Adapter: "psalms"}, "b": {Name: "b", Model: "m"}, "c": {Name: "c", Model: "other"},
	}}}
	check := func(after uint64, want ...string) uint64 {
		t.Helper()
		version, all := n.modelPins("m")
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
	n.catalogue.Apply(store.AdapterChange{
		Model: "m",
		Name:  "psalms",
		Spec:  &messages.AdapterSpec{Model: "m", Name: "psalms", Revision: 7},
		At:    7,
	})
	version = check(version, "psalms@7", "")
	if key, err := n.adapterRevision("m", "psalms"); key != "psalms@7" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	n.catalogue.Apply(store.AdapterChange{Model: "m", Name: "psalms", At: 8})
	check(version, "")
	if _, err := n.adapterRevision("m", "psalms"); err == nil {
		t.Error("a deleted adapter has a revision")
	}
	if key, err := n.adapterRevision("m", ""); key != "" || err != nil {
		t.Errorf("no adapter: %q, %v", key, err)
	}
}
