// Package deployment provides the actor of one deployed model, and the group that runs deployments
// according to the store and the leases.
//
// # Deployment
//
// Parent: the deployments group of the node that holds the lease deployment.<model>. The cluster
// has one such actor per model; the lease's term fences those of earlier leaderships. Children:
// none; its replicas are children of the replicas groups of all nodes. Speaks with: gpu actors
// (GetGpu), replicas groups (ListReplicas, StartReplica, DrainReplica, StopReplica), its replicas
// (GetReplica, ConfirmRevision, MigrateSequences, ReplicaChanged), the node's router
// (RouteDeployment).
//
// core/deployment decides: it defines the phases of a replica and the commands of each phase. The
// actor turns messages into its events, and its effects into messages, jobs and timers. It starts the
// replicas that the planner has assigned, stops the others, and reports the progress of each and the memory
// that one needs. A deployment without assignments keeps the replicas that are there until it is planned.
//
// The command of a phase is repeated every second until it is answered. All commands are idempotent
// and carry the term; receivers that know a later term refuse them.
//
// State: the DeploymentSpec is desired; Started requests it from the group. The replicas are
// observed: Started queries the replicas groups of all nodes, and those of nodes that join are
// queried later. A crash, or a new leadership elsewhere, loses a change in progress, which is then
// started again, and which assignments failed, which are tried once more. Requests do not pass through
// this actor: routers know the replicas and continue without a leader.
//
// # Group
//
// Parent: node. Children: the deployments whose leases this node holds. It watches the store and
// the leases. core/leadership decides which free leases it acquires, and which deployments it starts
// and stops. A hash determines which node tries first, so that deployments spread over the nodes. A
// crash restarts the deployments of this node; their replicas and streams continue. Which deleted
// deployments free their weights is read again from the store.
package deployment
