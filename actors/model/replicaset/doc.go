// Package replicaset provides the actor that supervises a node's replicas.
//
// Parent: the node. Children: the replicas of the node, by name. Speaks with: the gpu actors
// (GetGpu, UnloadModel). Accepts: StartReplica, DrainReplica, StopReplica, RestartReplica, ListReplicas;
// from its replicas ReplicaChanged and ReplicaDrained. Answers: StartReplicaResult,
// StopReplicaResult, RestartReplicaResult, ListReplicasResult.
//
// The group starts and stops replicas by command of their deployments, and does little else that
// could crash. It forwards the reports of a replica to its deployment, which may be on another node
// and may move. A Fence refuses the commands of a stale leader.
//
// What the group knows of its replicas comes from the deployments' commands. A crash of the group
// stops all replicas, and the deployments start them again. Their device memory stays leased, so
// that nothing is loaded twice. The group releases it if a replica is not started again within 30 s
// (orphans.go).
package replicaset
