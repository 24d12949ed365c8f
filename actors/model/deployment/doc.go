// Package deployment holds the actor of one model that the operator deployed, and the group that keeps them in step with
// the store.
//
// # Deployment
//
// Parent: the deployments group. Children: none; its replicas live under the replicas group of a node.
// Speaks with: gpu actors (GetGpu, UnloadModel), the replicas group (StartReplica, StopReplica), its replicas
// (DrainReplica, ReplicaChanged), sessions (RouteSequence).
//
// It keeps as many replicas serving as were asked for, one change at a time, and routes sequences to them. Where a
// replica goes and which one gets a request is decided by core/plan. Every replica passes through the phases
//
//	placing → starting → loading → up → draining → stopping → unloading
//
// and whatever was said in a phase is said again every second until the answer comes: all these commands may be
// repeated.
//
// State: the DeploymentSpec is desired, asked of the group at Started. The replicas are observed: asked of the replicas
// group at Started. A crash loses the load figures and a change under way, which is begun again.
//
// # Group
//
// Parent: node. Children: one deployment each. It watches the store, starts a deployment for every key and tells it what to be.
// A crash restarts all deployments; replicas and their streams go on.
package deployment
