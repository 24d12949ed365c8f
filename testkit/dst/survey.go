package dst

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"troupe/messages"
	"troupe/node/query"
)

// Seen counts what has happened in a run, as the replicas and tiers that run at its end report it.
// What replicas and nodes did before they ended is not in it.
type Seen map[string]uint64

// Add adds the counts of another run.
func (s Seen) Add(other Seen) {
	for name, n := range other {
		s[name] += n
	}
}

func (s Seen) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, fmt.Sprintf("%s %d", name, s[name]))
	}
	return strings.Join(all, ", ")
}

// survey counts what has happened in the run.
func (c *cluster) survey() {
	seen := make(Seen)
	seen.Add(c.steps.injected)
	for _, m := range c.models {
		for _, r := range c.replicas(m.name) {
			s, ok := ask[*messages.ReplicaStatus](c, r.node, r.pid, &messages.GetReplica{})
			if !ok {
				continue
			}
			a := s.GetAdapterCounts()
			seen.Add(Seen{"preempted": s.GetPreemptions(), "blocks shared": s.GetKvHits(),
				"blocks evicted": s.GetKvEvictions(), "blocks offloaded": s.GetKvOffloaded(),
				"blocks restored": s.GetKvRestored(), "blocks fetched": s.GetKvFetched(),
				"migrated": s.GetMigratedIn(), "steps aborted": s.GetKvStepsAborted(),
				"adapter loads": a.GetLoads(), "adapter evictions": a.GetEvictions(),
				"adapter failures": a.GetFailures(), "adapter hits": a.GetHits()})
		}
	}
	for _, name := range c.names {
		if n := c.nodes[name]; !n.crashed {
			v := n.canaries.Counts()
			g := n.faults.captures
			seen.Add(Seen{"graphs captured": g.done, "captures failed": g.failed, "captures hung": g.hung})
			seen.Add(Seen{"weights recorded": v.Recorded, "weights verified": v.Passed, "weights rejected": v.Rejected})
		}
		for _, tier := range []string{"dram", "nvme"} {
			n := c.nodes[name]
			s, ok := ask[*messages.SlotsStatus](c, n, n.pid(query.Tier(tier)), &messages.GetSlots{RequestId: "seen"})
			if ok {
				seen.Add(Seen{tier + " hits": s.GetHits(), tier + " arrivals": s.GetArrivals(),
					tier + " damaged": s.GetDamaged()})
			}
		}
	}
	seen.Add(c.checks.plans.counts)
	c.result.Seen = seen
}
