package cluster_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

// TestNewReplicasAreNotLeftovers: a node that has got replicas since its level was measured has nothing left behind; one with goroutines of
// nobody has. Its log then says what they do.
func TestNewReplicasAreNotLeftovers(t *testing.T) {
	c := cluster.Up(t, cluster.Config{Nodes: 1, Devices: "host:4x256MiB"})
	before := measureBaseline(t, c)
	deploy(t, c, 4)
	checkClean(t, c, before)

	before["n1"] -= 200
	if err := c.Leftovers(t.Context(), before); err == nil || !strings.Contains(err.Error(), "goroutines") {
		t.Errorf("with 200 goroutines too many: %v", err)
	}
	if err := c.Quit(cluster.TestContext(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if log, err := os.ReadFile(c.Nodes[0].Process().Log); err != nil || !strings.Contains(string(log), "cuda/host.(*stream).work") {
		t.Errorf("the log does not say what the goroutines of a stream do: %v", err)
	}
}
