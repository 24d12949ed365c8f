package node_test

import (
	"strings"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// TestParkReplica parks one of two replicas that share the weights of a GPU, and then the other one: the
// weights stay while a replica uses them, and then move to the host cache. Both are activated again.
func TestParkReplica(t *testing.T) {
	n := start(t, func(c *node.Config) {
		c.Deployments[0].Replicas, c.WeightsHostBytes = new(uint32(2)), 64<<20
	})
	conn := connect(t, n)
	serve := func(names ...string) func() bool {
		return func() bool {
			var serving []string
			for _, r := range modelOf(t, conn).GetReplicas() {
				if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
					serving = append(serving, r.GetName())
				}
			}
			return strings.Join(serving, " ") == strings.Join(names, " ")
		}
	}
	waitFor(t, "both replicas", serve("kjv-0", "kjv-1"))
	want, ok := greedyText(t, n)
	if !ok {
		t.Fatalf("before: %s", want)
	}

	answer[messages.ParkModelResponse](t, conn, "troupe.v1.models.park", `{"name": "kjv", "replica": "kjv-1"}`)
	waitFor(t, "kjv-1 to be gone", func() bool {
		_, weights := hostCache(t, conn)
		return len(modelOf(t, conn).GetReplicas()) == 1 && len(weights) == 1 && len(weights[0].GetUsers()) == 1
	})
	waitFor(t, "the model to be ready with one parked", func() bool {
		m := modelOf(t, conn)
		return strings.Contains(m.GetDetail(), "parked: kjv-1") && serve("kjv-0")() &&
			m.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
	})
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("with one parked: %q, want %q", got, want)
	}

	answer[messages.ParkModelResponse](t, conn, "troupe.v1.models.park", `{"name": "kjv", "replica": "kjv-0"}`)
	waitFor(t, "the weights to be parked", func() bool {
		cache, weights := hostCache(t, conn)
		return len(weights) == 0 && len(cache.GetImages()) == 1 && cache.GetPinnedBytes() > 0 &&
			modelOf(t, conn).GetState() == messages.DeploymentState_DEPLOYMENT_STATE_PARKED
	})
	if body, ok := greedyText(t, n); ok || !strings.Contains(body, "at level parked; models.activate") {
		t.Errorf("request for a parked model: %s", body)
	}
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv", "replica": "kjv-1"}`)
	waitFor(t, "kjv-1", serve("kjv-1"))
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("after: %q, want %q", got, want)
	}
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
	waitFor(t, "both replicas", serve("kjv-0", "kjv-1"))
}
