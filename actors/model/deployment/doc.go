// Package deployment holds the actor of one model that the operator deployed, and the group that keeps them in step with
// the store and with the other nodes.
//
// # Deployment
//
// Parent: the deployments group of the node that holds the lease deployment.<model>; there is one in the cluster, and its
// term says which reign it is.
// Children: none; its replicas live under the replicas groups of all nodes.
// Speaks with: gpu actors (GetGpu), replicas groups (ListReplicas, StartReplica, StopReplica), its replicas (DrainReplica,
// MigrateSequences, ReplicaChanged), the node's router (RouteDeployment).
//
// It keeps as many replicas serving as were asked for, and where nothing else is to be done has one move that is better
// placed elsewhere, as when a node has come back. What to do next, where a replica goes and which one leaves is decided by
// core/schedule. Every replica passes through the phases
//
//	placing → starting → loading → up → draining → stopping
//
// and whatever was said in a phase is said again every second until the answer comes: all these commands may be
// repeated, and all carry the term: who has heard of a later reign refuses them.
//
// State: the DeploymentSpec is desired, asked of the group at Started. The replicas are observed: asked of every node's
// replicas group at Started and whenever a node joins. A crash, or a new reign elsewhere, loses a change under way, which
// is begun again; of a move the surplus is left, and goes from where there are most. Requests do not pass through here: routers know the replicas, and go on while nobody reigns.
//
// # Group
//
// Parent: node. Children: the deployments whose lease this node holds. It watches the store and the leases, takes a lease
// that is free, starts a deployment for every lease it holds and stops it when the lease is lost. Which node tries first
// is a matter of a hash, so that deployments are spread.
// A crash restarts the deployments of this node; replicas and their streams go on.
package deployment
