// Package planner decides when the planner of a node acquires the leader's lease, observes the
// deployments, or stores a new number of replicas. core/schedule decides the numbers.
//
// A Machine takes events with the current time and returns Effects, which the caller carries out in
// order. With each tick and view the caller reports whether this node leads.
//
// # Transitions
//
// The first row that fits an event applies; an event without a row is ignored.
//
//	event      state               guard                 next       effects
//	tick       idle                leads                 same       observe
//	           idle                                      acquiring  forget the loads; acquire the lease
//	           acquiring, storing                        same       —
//	view       idle                does not lead         same       ignore
//	           idle                                      same       decide
//	           acquiring, storing  a write is in flight  same       ignore
//	decided    idle                                      storing    scale
//	write end  acquiring, storing                        idle       —
//
// A view leads to at most one change, for the first deployment that needs one. The other
// deployments wait for the next view. A change that cannot be stored, because the deployment has
// another revision by now, is decided again from a later view.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - leader: only the leader observes and scales, and only other planners acquire the lease
//   - one write: nothing is acquired or stored while a write is in flight
//   - range: a change sets a different number of replicas, between the minimum and the maximum
//   - stopped: a deployment without replicas, asleep or stopped, is left alone
//   - fixed: a deployment whose minimum equals its maximum is left alone
//   - held: a deployment for which an operator has set a level is left alone
//   - observed: a change carries the revision and the number of replicas that were observed
//   - explained: a change has a reason
//   - fresh: a new leader remembers no load from before
//   - alive: each tick without a write in flight observes or acquires
//   - ignored: an ignored event changes nothing
package planner
