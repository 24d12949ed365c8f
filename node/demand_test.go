package node_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"troupe/messages"
)

// TestDemandOfAllGateways checks that each node knows the demand at all gateways, by models.get and by its
// metrics.
func TestDemandOfAllGateways(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(1))
	for _, n := range append(nodes, nodes[0]) {
		waitFor(t, "a response", func() bool {
			_, ok := greedyText(t, n)
			return ok
		})
	}
	for _, n := range nodes {
		var d *messages.Demand
		waitFor(t, "the demand of both gateways", func() bool {
			status, err := n.Backend().Deployment(t.Context(), "kjv")
			d = status.GetDemand()
			return err == nil && d.GetFinished() >= 3
		})
		if d.GetArrivals() != d.GetFinished()+d.GetRefused() || d.GetTtft().GetCount() != d.GetFinished() ||
			d.GetOutputTokens().GetP50() < 1 || d.GetTpot().GetP99() <= 0 || d.GetArrivalsPerSecond() <= 0 {
			t.Errorf("%v", d)
		}
		res, err := http.Get("http://" + n.HTTPAddr() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !bytes.Contains(body, []byte(`troupe_demand_ttft_seconds{model="kjv",quantile="0.99"}`)) {
			t.Errorf("%v: no TTFT in\n%s", err, body)
		}
	}
}
