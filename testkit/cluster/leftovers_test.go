package cluster_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

// TestNewReplicasAreNotLeftovers checks that replicas placed after the baseline do not count as
// leftovers, that surplus goroutines do, and that the log then shows their stacks.
func TestNewReplicasAreNotLeftovers(t *testing.T) {
	c := cluster.Up(t, cluster.Config{Nodes: 1, Devices: "host:4x256MiB"})
	before := measureBaseline(t, c)
	deploy(t, c, 4)
	checkClean(t, c, before)

	before["n1"] -= 200
	if err := c.Leftovers(t.Context(), before); err == nil || !strings.Contains(err.Error(), "goroutines") {
		t.Errorf("200 surplus goroutines: %v", err)
	}
	if err := c.Quit(cluster.TestContext(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if log, err := os.ReadFile(c.Nodes[0].Process().Log); err != nil ||
		!strings.Contains(string(log), "cuda/host.(*stream).work") {
		t.Errorf("the log has no stack of a stream's goroutine: %v", err)
	}
}
