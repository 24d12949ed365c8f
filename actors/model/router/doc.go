// Package router provides the actor that knows every replica of the cluster and chooses one for
// each request. There is one on every node.
//
// Parent: node. Children: none. Speaks with: sessions of its node (RouteSequence, SequenceMoved),
// replicas of its node (ReplicaAnnounced), the deployments of its node (RouteDeployment), its
// deployments group (the stored deployments), the KV tiers of its node (TierAnnounced), and the
// routers of all other nodes (RoutesAnnounced, GetRoutes).
//
// Every 100 ms each router announces the changes on its node to the other routers, in numbered
// deltas. A router that misses one requests a snapshot. A node that is silent for a second, or
// whose connection breaks, is avoided until its next message. Routing thus uses local state alone:
// it needs neither the leader of a deployment nor NATS. This state is a fraction of a second old. A
// replica whose state has changed since then refuses the request or does not answer; the session
// then requests another route and avoids this replica.
//
// With each report of a replica of its node, the router compares the replica's adapters with the
// catalogue and sends the differences (ForgetAdapter, ApplyAdapter). The announcements also contain
// the KV blocks that each tier of each node holds. A replica asks the router which tiers hold the
// blocks that it lacks (FindBlocks).
//
// A view of the cluster (GetClusterView) has the demand for each model, merged over all gateways. If
// there are many models, a job merges it, one at a time; a crash loses the requests that wait for it.
//
// The Machine of core/router decides what the router knows, announces and answers. core/route
// selects the replica. This package translates messages into events of the machine and carries out
// its effects.
//
// State: all state is observed. A crash loses it, and with it the decision log. The next
// incarnation queries the replicas and the deployments of its node and all other routers. When a
// node leaves, its replicas are removed at once.
package router
