package dst

import (
	"troupe/actors/kvblock"
	"troupe/messages"
	"troupe/node/query"
)

// Counts is how often something happened in runs.
type Counts map[string]uint64

// Add adds other counts.
func (c Counts) Add(other Counts) {
	for what, n := range other {
		c[what] += n
	}
}

// count reads the counters of replicas and tiers. Those of actors that have ended are lost.
func (c *cluster) count() Counts {
	counts := Counts{"turns taken": c.checks.turns.taken, "turns overdue": c.checks.turns.reports}
	for _, m := range c.models {
		for _, r := range c.replicas(m.name) {
			if s, ok := ask[*messages.ReplicaStatus](c, r.node, r.pid, &messages.GetReplica{}); ok {
				counts.Add(Counts{"preemptions": s.GetPreemptions(), "sequences migrated": s.GetMigratedIn(),
					"blocks offloaded": s.GetKvOffloaded(), "blocks restored": s.GetKvRestored(),
					"blocks found in HBM": s.GetKvHits(), "blocks evicted": s.GetKvEvictions(),
					"blocks recomputed": s.GetKvRecomputed(), "prompt tokens cached": s.GetTokensCached()})
			}
		}
	}
	for _, name := range c.names {
		n := c.nodes[name]
		if n.crashed {
			continue
		}
		for _, tier := range []string{"dram", "nvme", kvblock.RemoteName} {
			if s, ok := ask[*messages.SlotsStatus](c, n, n.pid(query.Tier(tier)), &messages.GetSlots{}); ok {
				counts.Add(Counts{tier + " hits": s.GetHits(), tier + " arrivals": s.GetArrivals(),
					tier + " demotions": s.GetDemotions(), tier + " blocks lent": s.GetLent(),
					tier + " blocks kept": s.GetKept(), tier + " drops": s.GetDrops(), tier + " bytes": s.GetBytes()})
			}
		}
	}
	return counts
}
