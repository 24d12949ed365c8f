package cluster_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

// TestChangeWithoutQuorumIsRefused kills two of three nodes. The third must report the lost quorum
// and refuse a change. The change must not take effect when the other nodes are back.
func TestChangeWithoutQuorumIsRefused(t *testing.T) {
	c := cluster.Up(t, cluster.Config{Nodes: 3, NATS: cluster.Routed})
	if err := c.WaitMembers(cluster.TestContext(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	deploy(t, c, 1)
	scale := func(replicas uint32) error {
		req := &messages.ScaleModelRequest{Name: cluster.ModelName, Replicas: new(replicas)}
		return c.Call(t.Context(), "models.scale", req, &messages.ScaleModelResponse{})
	}
	for _, n := range c.Nodes[1:] {
		if err := n.Process().Kill(); err != nil {
			t.Fatal(err)
		}
	}
	const words = "1 of 3 NATS servers are connected and 2 are needed"
	until(t, "nodes.list to report the lost quorum", func() bool {
		res := &messages.ListNodesResponse{}
		err := c.Call(t.Context(), "nodes.list", &messages.ListNodesRequest{}, res)
		return err == nil && res.GetStore().GetReason() == messages.Reason_REASON_NO_QUORUM &&
			strings.Contains(res.GetStore().GetDetail(), words) && len(res.GetNodes()) == 3
	})
	err := scale(2)
	if err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("change without quorum: %v", err)
	}
	until(t, "/ready to report the lost quorum", func() bool {
		res, err := c.Nodes[0].HTTP().Get(c.Nodes[0].URL("/ready"))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return err == nil && res.StatusCode == http.StatusServiceUnavailable &&
			strings.Contains(string(body), `"quorum"`)
	})

	for _, n := range c.Nodes[1:] {
		if err := n.Start(cluster.TestContext(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitMembers(cluster.TestContext(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	until(t, "the model, with one replica", func() bool {
		m, err := c.Model(t.Context(), cluster.ModelName)
		if err == nil && m.GetSpec().GetReplicas() != 1 {
			t.Fatalf("%d replicas requested", m.GetSpec().GetReplicas())
		}
		return err == nil
	})
	until(t, "an accepted change", func() bool { return scale(2) == nil })
}
