package route_test

import (
	"testing"

	"troupe/core/route"
)

// TestRouteKeepsRevision checks that a request with output is never routed to a replica with other
// files.
func TestRouteKeepsRevision(t *testing.T) {
	var r *route.Routes
	for revision, want := range map[string]string{"": "m-1", "x": "m-0", "y": "m-1", "z": ""} {
		r = route.NewRoutes() // a decision counts as load for the next one
		r.Update(route.Replica{Name: "m-0", State: route.Serving, MaxSequences: 4, Revision: "x", Running: 3})
		r.Update(route.Replica{Name: "m-1", State: route.Serving, MaxSequences: 4, Revision: "y"})
		if d := r.Route(route.Request{ID: "r", Tokens: 8, Revision: revision}); d.Name != want || d.OK != (want != "") {
			t.Errorf("output of revision %q: %s, %s", revision, d.Name, d.Why())
		}
	}
	if !r.HasRevision("y") || r.HasRevision("z") {
		t.Error("HasRevision is wrong")
	}
}
