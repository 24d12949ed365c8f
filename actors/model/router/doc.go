// Package router holds the actor that knows, on each node, every replica of the cluster, and says which one serves a
// request.
//
// Parent: node. Children: none.
// Speaks with: sessions of its node (RouteSequence, SequenceMoved), replicas of its node (ReplicaAnnounced), the deployments of its node
// (RouteDeployment), its deployments group (what is stored), the KV tiers of its node (TierAnnounced), and the routers of all other nodes
// (RoutesAnnounced, GetRoutes).
//
// Each router tells the others what changed on its node, every 100 ms where something did, in numbered increments; who
// misses one asks for a snapshot. A node from which nothing comes for a second, or whose connection breaks, is avoided until
// it is heard from again. So a request finds its replica by local knowledge alone: it needs neither the node where its
// deployment lives, nor NATS. What a router believes is late by a fraction of a second; a replica that is no longer what it
// is believed to be refuses, or is silent, and the session asks again and avoids it.
//
// With each report of a replica of its node it compares which adapters that holds with the catalogue, and tells it what to forget or to keep
// (ForgetAdapter, ApplyAdapter).
// The same announcements say which KV blocks each tier of each node holds, so that a replica can be told who has the blocks that it lacks
// (FindBlocks).
//
// Which replica is best is decided by core/route. The last decisions are kept and can be explained.
//
// State: all of it is observed. A crash loses it, and the decisions kept; the next incarnation asks the replicas and the
// deployments of its node and all other routers. A node that leaves takes its replicas out of the table at once.
package router
