package node_test

import (
	"net/http"
	"slices"
	"testing"

	"troupe/messages"
)

// TestNewReplicaHasPopularAdapters checks that a replica that is added has the adapters that were requested in the
// cluster, at the gateways of all nodes, before any request for them arrives at it.
func TestNewReplicaHasPopularAdapters(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(1), nodes[1])
	conn := connect(t, nodes[0])
	registerShipped(t, conn)
	waitFor(t, "both nodes to know the adapters", func() bool {
		return len(nodes[0].Backend().Adapters("kjv")) == 3 && len(nodes[1].Backend().Adapters("kjv")) == 3
	})
	for i, adapter := range []string{"psalms", "shout", "psalms"} {
		g := adapterGoldens(t, adapter)[0]
		if status, text, _ := completeGolden(t, nodes[i%2], adapter, g); status != http.StatusOK || text != g.Text {
			t.Fatalf("%s: %d %q, want %q", adapter, status, text, g.Text)
		}
	}
	first := replica(t, nodes[0], "kjv").GetName()
	if _, _, err := nodes[0].Scale(t.Context(), "kjv", 2); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new replica to have the adapters that were requested", func() bool {
		status, err := nodes[0].Backend().Deployment(t.Context(), "kjv")
		if err != nil {
			return false
		}
		for _, r := range status.GetReplicas() {
			var names []string
			for _, a := range r.GetAdapters() {
				if a.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU {
					names = append(names, a.GetName())
				}
			}
			if r.GetName() != first && slices.Equal(names, []string{"psalms", "shout"}) {
				if n := r.GetAdapterCounts(); n.GetPrefetches() != 2 || r.GetTokensIn() != 0 {
					t.Errorf("%d prefetches, %d prompt tokens", n.GetPrefetches(), r.GetTokensIn())
				}
				return true
			}
		}
		return false
	})
}
