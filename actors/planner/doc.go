// Package planner provides the control loop of the cluster. It observes the load every second and
// changes the number of replicas of each deployment, between its min_replicas and max_replicas.
//
// Parent: node. Children: none. Every node has one planner, and the one whose node holds the lease
// `planner` is the leader. The others try to acquire the lease when it is free. Speaks with: the
// router of its node (GetClusterView).
//
// The actor drives the machine of core/planner, which decides when to acquire the lease, when to
// observe and when to scale.
//
// The leader writes its decisions to the store, as an operator does, by compare-and-swap on the
// revision that it observed. The deployment carries them out. A stale leader therefore does no
// harm: its write fails after the new leader's write, and its next observation shows that it has
// lost the lease.
//
// A deployment with no replicas is asleep or was stopped by an operator, and is left alone. The load
// scales no deployment below one replica; one with min_replicas 0 is put to sleep, with none, once it
// had no request for idle_after.
//
// State: how long each deployment's load has been too high or too low. It is lost in a crash and on
// a change of the leader, which delays a decision by a few seconds.
package planner
