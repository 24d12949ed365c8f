package cluster_test

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

// TestRestartBehindBalancer stops every node in turn, gracefully, and starts it again behind a
// plain balancer that honours /ready. The clients are not aware of the restarts and never retry;
// each must get its whole answer.
//
// TROUPE_ROLLING sets the minimum number of requests. The nodes then have the default grace period,
// and the balancer probes them once a second.
func TestRestartBehindBalancer(t *testing.T) {
	requests, length, period, grace := 20, 8, 200*time.Millisecond, "4s"
	between := 400 * time.Millisecond // most of the time is grace, which need not keep all cores busy
	if long, err := strconv.Atoi(os.Getenv("TROUPE_ROLLING")); err == nil {
		requests, length, period, grace, between = long, 24, time.Second, "5s", 0
	}
	cfg := cluster.Config{Nodes: 3, NATS: cluster.Routed, Flags: []string{"--drain-grace", grace}}
	s := newScenario(t, cfg)
	load := cluster.Requests(8, length)
	answers, err := cluster.ReferenceAnswers(cluster.TestContext(t, time.Minute), load)
	if err != nil {
		t.Fatal(err)
	}
	b, err := cluster.Balance(period, s.Nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	within := cluster.TestContext(t, 5*time.Minute)
	clients := b.Keep(within, 6, between, load, answers)
	for _, n := range s.Nodes {
		unaware, err := b.Restart(within, n)
		if err != nil {
			t.Error(err)
			break
		}
		t.Logf("%s received %d requests after SIGTERM", n.Name, unaware)
	}
	if err := clients.Reach(within, requests); err != nil {
		t.Error(err)
	}
	exact, failed := clients.Finish()
	t.Logf("%d requests, %d failed", exact+len(failed), len(failed))
	if len(failed) > 0 {
		t.Errorf("%d of %d requests failed: %v", len(failed), exact+len(failed),
			errors.Join(failed[:min(5, len(failed))]...))
	}
	checkClean(t, s.Cluster, s.baseline)
}
