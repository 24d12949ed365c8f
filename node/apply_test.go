package node_test

import (
	"context"
	"testing"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// TestConfigurationIsAppliedOnce checks that a restart does not undo changes by command until the
// configuration changes, and that it deploys a deleted model again.
func TestConfigurationIsAppliedOnce(t *testing.T) {
	data := t.TempDir()
	var n *node.Node
	again := func(replicas uint32) *messages.DeploymentSpec {
		t.Helper()
		if n != nil {
			if err := n.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		n = start(t, func(c *node.Config) {
			c.DataDir, c.Deployments = data, []*messages.DeploymentSpec{
				{Name: "kjv", Path: testkit.Model(), Replicas: new(uint32(replicas))},
			}
		})
		d, err := n.Backend().Deployment(t.Context(), "kjv")
		if err != nil {
			t.Fatal(err)
		}
		return d.GetSpec()
	}
	is := func(when string, got *messages.DeploymentSpec, replicas, waiting uint32) {
		t.Helper()
		if got.GetReplicas() != replicas || got.GetMaxWaiting() != waiting {
			t.Errorf("%s: %v", when, got)
		}
	}
	is("at first", again(1), 1, 1024)
	if _, _, err := n.Scale(t.Context(), "kjv", 2); err != nil {
		t.Fatal(err)
	}
	is("scaled and restarted", again(1), 2, 1024)
	deployed := kjvSpec(2)
	deployed.MaxWaiting = new(uint32(9))
	deploy(t, n, deployed)
	is("deployed by command and restarted", again(1), 2, 9)
	is("with another configuration", again(3), 3, 1024)
	is("with the old one", again(1), 1, 1024)
	if err := n.Backend().DeleteDeployment(t.Context(), "kjv", false); err != nil {
		t.Fatal(err)
	}
	is("deleted and restarted", again(1), 1, 1024)
}
