package hostcache_test

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/hostcache"
	"troupe/actors/supervise"
	"troupe/cuda/host"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// TestStartsBeforeDeployments starts the host cache before the deployments group. It knows the dead letter of
// its request, and answers.
func TestStartsBeforeDeployments(t *testing.T) { synctest.Test(t, startsBeforeDeployments) }

func startsBeforeDeployments(t *testing.T) {
	sys, log := testkit.System(t), &warnings{}
	supervise.CountUnknown(sys, prometheus.NewRegistry(), zerolog.New(log))
	d, err := host.Open(host.Config{MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	cache := testkit.Spawn(t, sys, "hostcache", supervise.Strategy(nil), hostcache.Props(hostcache.Config{
		Images: residency.NewHostCache(d), Budget: 1 << 20, Deployments: actor.NewPID(sys.Address(), "deployments"),
		Publish: func(string, string, string) {}, Log: zerolog.New(log),
	}))
	synctest.Wait()
	peer := testkit.NewPeer(t, sys, "peer", nil)
	peer.Send(cache, &messages.GetHostCache{})
	synctest.Wait()
	if n := len(testkit.Got[*messages.HostCacheStatus](peer)); n != 1 || log.String() != "" {
		t.Errorf("%d answers; logged: %s", n, log)
	}
}
