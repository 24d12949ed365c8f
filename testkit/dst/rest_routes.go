package dst

import (
	"maps"
	"slices"

	"troupe/messages"
	"troupe/node/query"
)

// restlessRoutes compares what routers know of the KV blocks of a node's replicas with what these hold: the router
// of the node knows their number, and the other routers find all blocks that it knows.
func (c *cluster) restlessRoutes(n *Node, replicas map[string]*messages.ReplicaStatus, report func(string, ...any)) {
	own, ok := ask[*messages.RoutesAnnounced](c, n, n.pid(query.Router), &messages.GetRoutes{Node: n.cfg.Name})
	if !ok {
		report("the router of %s does not answer", n.cfg.Name)
		return
	}
	known := make(map[string][]uint64) // blocks by replica
	for _, r := range own.GetReplicas() {
		known[n.cfg.Name+"/"+r.GetStatus().GetName()] = r.GetCommitted()
	}
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		s := replicas[name]
		if s.GetNode() != n.cfg.Name || s.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING {
			continue
		}
		blocks, ok := known[name]
		if cached := int(s.GetKvBlocksCached()); !ok || len(blocks) != cached {
			report("the router of %s knows %d blocks of %s, which has %d (known: %v)", n.cfg.Name, len(blocks), name,
				cached, ok)
		}
		for _, other := range c.alive() {
			if other != n && len(blocks) > 0 {
				c.findsBlocks(other, name, s.GetModel(), blocks, report)
			}
		}
	}
}

// findsBlocks checks that the router of a node finds the blocks of a replica of another node. It names the holder
// with the most of them, which has all.
func (c *cluster) findsBlocks(n *Node, replica, model string, blocks []uint64, report func(string, ...any)) {
	found, _ := ask[*messages.FindBlocksResult](c, n, n.pid(query.Router), &messages.FindBlocks{
		RequestId: "rest", Model: model, Blocks: blocks, InTiers: make([]uint64, len(blocks)),
	})
	if held := found.GetHeld(); len(held) != 1 || int(held[0].GetBlocks()) != len(blocks) {
		report("the router of %s finds the %d blocks of %s as %v", n.cfg.Name, len(blocks), replica, held)
	}
}
