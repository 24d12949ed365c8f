// Package planner provides the control loop of the cluster. It observes the load every second and
// changes the number of replicas of each deployment, between its min_replicas and max_replicas.
//
// Parent: node. Children: none. Every node has one planner, and the one whose node holds the lease
// `planner` is the leader. The others try to acquire the lease when it is free. Speaks with: the
// router of its node (GetClusterView).
//
// It is a shell over core/planner, which decides when to acquire the lease, to observe and to scale.
//
// The leader writes its decisions to the store by compare-and-swap on the revision that it observed,
// like an operator; the deployment carries them out. A stale leader therefore does no harm: its write
// fails after the new leader's write, and its next observation shows that it has lost the lease.
//
// A deployment with no replicas was stopped by an operator and is left alone. None is scaled below one
// replica.
//
// State: for how long each deployment's load has been too high or too low. A crash or a new leader
// loses it, which delays a decision by a few seconds.
package planner
