package route

import (
	"testing"

	"troupe/core/backend"
)

// TestCapabilities checks that a replica is chosen only for what its backend can do, and that the explanation
// says what it lacks.
func TestCapabilities(t *testing.T) {
	hashes := []uint64{1, 2}
	for name, tc := range map[string]struct {
		lacks   backend.Set
		request Request
		chosen  string // "b" computes the whole prompt, and "a" holds it
		why     string
	}{
		"all": {
			0, Request{Hashes: hashes, Tokens: 33}, "a",
			"a on node-a: 32 of 33 prompt tokens cached, 0 sequences ahead; b would compute 33",
		},
		"no KV events": {
			backend.Set(0).With(backend.KVEvents), Request{Hashes: hashes, Tokens: 33}, "b",
			"b on node-b: 0 of 33 prompt tokens cached, 0 sequences ahead; a would compute 33 behind 1 sequence",
		},
		"no adapters": {
			backend.Set(0).With(backend.Adapters), Request{Hashes: hashes, Tokens: 33, Adapter: "x@1"}, "b",
			"b on node-b: adapter x@1 to be read from disk, 0 of 33 prompt tokens cached, 0 sequences ahead; " +
				"no other serves",
		},
		"no resume": {
			backend.Set(0).With(backend.Resume), Request{Hashes: hashes, Tokens: 33, Revision: "r"}, "b",
			"b on node-b: 0 of 33 prompt tokens cached, 0 sequences ahead; no other serves",
		},
	} {
		routes := NewRoutes()
		a, b := serving("a"), serving("b")
		a.BlockTokens, b.BlockTokens, a.Revision, b.Revision, a.Lacks = 16, 16, "r", "r", tc.lacks
		if tc.lacks.Has(backend.KVEvents) {
			a.Running = 1
		}
		routes.Update(a)
		routes.Update(b)
		routes.ResetBlocks("a", hashes)
		tc.request.ID = "r1"
		if d := routes.Route(tc.request); d.Name != tc.chosen || d.Why() != tc.why {
			t.Errorf("%s: %s, %q", name, d.Name, d.Why())
		}
	}
	routes := NewRoutes()
	a := serving("a")
	a.Lacks = backend.All
	routes.Update(a)
	for want, r := range map[string]Request{
		"no replica serves: 1 has a backend without resume":   {ID: "r", Tokens: 9, Revision: "r"},
		"no replica serves: 1 has a backend without adapters": {ID: "r", Tokens: 9, Adapter: "x@1"},
		"a on node-a: its backend reports no cached blocks (no kv_events), 9 prompt tokens, 0 sequences ahead; " +
			"no other serves": {ID: "r", Tokens: 9},
	} {
		if d := routes.Route(r); d.Why() != want {
			t.Errorf("got %q, want %q", d.Why(), want)
		}
	}
}
