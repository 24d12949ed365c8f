// Package planner decides what the planner of a node does: acquire the lease of the leader, observe
// the deployments, or store a new number of replicas. core/schedule decides the numbers.
//
// A Machine is fed events with the time and returns Effects, which its caller carries out in order.
// With each tick and view the caller reports whether this node leads.
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
// A view yields at most one change, that of the first deployment that needs one; the next view is for
// the others. A change that cannot be stored, because the deployment has another revision by now, is
// decided again with a later view.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - leader: only a leader observes and scales, and only others acquire the lease
//   - one write: nothing is acquired or stored while a write is in flight
//   - range: a change leads from a number to another one between the minimum and the maximum
//   - stopped: a deployment without replicas is left alone
//   - fixed: so is a deployment whose minimum is its maximum
//   - observed: a change carries the revision and the number of replicas that were observed
//   - explained: a change has a reason
//   - fresh: a new leader remembers no load from before
//   - alive: each tick without a write in flight observes or acquires
//   - ignored: an ignored event changes nothing
package planner
