// Package planner decides when the planner of a node acquires the leader's lease, observes the cluster,
// makes a plan, and stores it. core/schedule decides what the plan is.
//
// A Machine takes events with the current time and returns Effects, which the caller carries out in order.
// With each event the caller reports the term in which this node leads, and whether an operator has paused
// the planner.
//
// # Transitions
//
// The first row that fits an event applies; an event without a row is ignored.
//
//	event     state         guard                            next       effects
//	tick      idle          does not lead                    acquiring  forget all plans; acquire the lease
//	          idle                                           observing  observe
//	          acquiring     no answer in time                idle       —
//	          in a round    its term has ended               idle       forget all plans; deny questions
//	          in a round    no answer in time                idle       end the round
//	          all but idle                                   same       —
//	asked     any           does not lead                    same       deny it
//	          idle                                           observing  keep it; observe
//	          all but idle                                   same       keep it
//	acquired  acquiring                                      idle       —
//	viewed    observing     of another round                 same       ignore
//	          observing     its term has ended               idle       forget all plans; deny questions
//	          observing     no answer                        idle       end the round
//	          observing     lacks own writes                 idle       end the round
//	          observing     a later term has planned         idle       end the round
//	          observing     no plan is due or asked for      idle       end the round
//	          observing                                      surveying  survey
//	surveyed  surveying     of another round                 same       ignore
//	          surveying     its term has ended               idle       forget all plans; deny questions
//	          surveying                                      planning   make a plan
//	planned   planning      of another round                 same       ignore
//	          planning      its term has ended               idle       forget all plans; deny questions
//	          planning      no answer                        idle       end the round
//	          planning      nothing to store                 idle       refuse; answer
//	          planning                                       storing    store
//	stored    storing       of another round                 same       ignore
//	          storing       its term has ended               idle       forget all plans; deny questions
//	          storing       it was not stored                idle       refuse; answer; plan again
//	          storing       last one, paused, or 1 s passed  idle       refuse; answer
//	          storing                                        same       store
//
// # When a plan is due
//
// The leader observes the deployments and nodes every second, and every 100 ms for a while after a change
// (Soon), or less often if that takes more than a quarter of the time. An observation leads to a plan every
// 10 s (Interval), and at once if
//
//   - this node has begun to lead, or was resumed, or a write was not stored;
//   - a stored deployment is new or was changed by others, its memory is known now, or it has begun or ceased to
//     report;
//   - a replica that is assigned has ended or did not start;
//   - a node has come back with a replica that is neither assigned nor withdrawn, or has not listed one that was lost
//     with it for 3 s since;
//   - a replica has begun to serve, so that the one that it replaces may leave, or a replica has left;
//   - a replica may start, since those whose memory it needs (After) have left;
//   - a node came, left, drains, or has other devices;
//   - a model has had no request for as long as it keeps its replicas;
//   - a device is quarantined, or not any longer;
//   - requests wait for a model without a replica, and then again every second;
//   - the rate of requests has risen suddenly (a spike);
//   - a replica has begun to serve, and lacks adapters that are popular in the cluster;
//   - replicas are missing and devices do not work, and then again every second;
//   - a backoff, the time for a start, or a hold has ended.
//
// Plans take at most half of the time. An observation that lacks this planner's own last writes is ignored for up
// to 5 s. So is one with the plans of a later term: this node no longer leads, and will soon learn so.
//
// If the clock goes back, remembered times that are then in the future become the present. If it jumps forward, time
// limits end early: starts are tried again, and holds end.
//
// # What is stored
//
// A plan is stored as the assignments, the replicas that are withdrawn, and the number of replicas of each
// deployment that it changes, by compare-and-swap on the revision that was observed. A replica on a node that is
// away loses its assignment, but is not withdrawn: if it comes back, the next plan decides about it. Until then its
// name is not used, and for 3 s after its node is back, its model gets no other replica there. A new leader does not
// know of such replicas; one that comes back under a name that is in use is stopped.
//
// A write that is not stored ends the round, and the next one begins with a new observation; so does one that was
// not confirmed, which may still be applied. A round stores for 1 s at most, so that thousands of deployments do
// not delay a wake: what is left is planned again. A deployment that is stored with another number of replicas than
// with its last assignments was changed by an operator: the number is a lower or upper limit for the next plan, and
// the policy goes on from there.
//
// A hold that has a time ends with the first write after it (Write.Released), which also ends the levels and
// preemptions that an operator has set. Until then they stay, also while the
// planner is paused or the deployment does not report.
//
// # Adapters
//
// With each plan, replicas that serve learn which adapters to fetch ahead (Prefetch): those that are
// popular in the cluster, fit beside the adapters in use, and are not on the device; see schedule.Prefetch. A
// replica that lacks the same ones for a minute learns of them again.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - leader: only the leader observes, asks devices, plans and stores, in its own term, and only other
//     planners acquire the lease
//   - one write: at most one write is in flight
//   - observed: a write carries the revision that was observed, or that the write before it has given
//   - departures first: a replica that needs the memory of others is stored after these were withdrawn
//   - offered: a plan that is stored assigns or withdraws each replica that is there and was neither
//   - again: after a write that was not stored or not confirmed comes an observation, and no write
//   - paused: nothing is stored while the planner is paused
//   - bounded: a round stores a deployment at most twice
//   - unique: no two replicas are stored under one name
//   - limits: a deployment is stored with at least its minimum of replicas, and at most its maximum; one that
//     is held or stopped keeps its number
//   - released: a write ends a hold whose time has passed, and no other one
//   - explained: each replica that is stored or withdrawn has a reason
//   - refused: a deployment learns of a refusal with every plan, and once of its end
//   - answered: a question is answered once, or forgotten once: after 15 s, or if 64 others came later
//   - stale: an answer of another round changes nothing
//   - alive: an idle planner observes or acquires with the next tick, and any answer is awaited for a minute
//     at most
//   - converges: without faults, plans stop changing, and models have their minimums if there is room. From any
//     state this takes at most 36 cycles of 10 s, 30 of them until an idle model sleeps, and the number of replicas
//     of each model reverses its direction at most once (TestConvergesFromAnyState)
package planner
