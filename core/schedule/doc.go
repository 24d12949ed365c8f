// Package schedule decides which devices run which models. Make turns a Snapshot of the pool into a Plan:
// every replica that is to be there, with its devices and the reason.
//
// A plan starts from what runs. Replicas stay where they are unless something is gained, so the plan for a
// pool that suits the demand changes nothing.
//
// # How many replicas
//
// A policy says how many replicas a model wants, and how urgently (Want). It knows nothing of devices, and
// the plan nothing of the load. With every policy, a model wants at least Min and at most Max replicas. While
// an operator holds it (HeldBy), it wants Replicas instead, as a minimum, and no policy counts. Nothing
// starts for a model of unknown size (Sized), and its replicas leave only if an operator wants fewer.
//
// With the policy "slo" and the defaults of Options, a model wants
//
//   - none after IdleAfter without a request, if Min is 0 (IdleAfter of 0: 5 minutes; deployments without `idle_after`
//     have never), and one when requests wait (wake);
//   - the fewest that serve the rate within the SLO, if a profile says what 1, 2 and so on do (Capacities). A
//     measurement says more: if the P99 of a window of 20 requests or more is within the SLO, no sequence waits, and
//     the rate does not rise, the present ones are not too few. The rate is that of some minutes, unless the arrivals
//     of the window are more by over two standard deviations;
//   - else ceil(replicas × P99 / SLO), for TTFT or TPOT, at most twice as many at once (missed), and at
//     most as many as leave headroom by the predicted wait, or a quarter more if the present ones do. The P99 counts
//     once all replicas have served for a window of 60 s, since it remembers the time before, and if
//     sequences wait, or it is one of 100 requests or more, or it is missed for a second window;
//   - ceil(replicas × growth), and at least one more, at a spike: the rate of the last 5 s is over twice that of the
//     window, there were at least 10 requests in it, and so many are very unlikely by chance (Chernoff's bound: 1e-5).
//     Growth is (n - 2 √n) / expected, with n the recent arrivals, at least 1. If the present ones have the places and
//     the time for so many sequences, no other model leaves for it;
//   - one more with little headroom: the wait for a place, as predicted, is over 0.8 of what the SLO leaves for it, or
//     the excess of the P99 × growth is, if no wait can be predicted or the window has 100 requests; KV blocks are over
//     0.9 full; or sequences queue;
//   - one fewer, after 60 s in which the remaining replicas would have carried the load: with 1.1 times the
//     load, their predicted wait is at most 0.8, and they serve it within the SLO by their profile; the excess of the
//     P99 that they would have is at most 0.65; and the average rate per replica is under 0.9 of any at which there
//     was too little headroom before;
//   - as many as have work for all of their places, if it is a batch model.
//
// The wait for a place is predicted by Erlang's formula for the average load of some minutes (predict.go).
// Without a known load, a replica is added when sequences are on over 0.85 of the places, and removed when they
// would be on at most 0.6 of the others. The excess of a P99 is what it is above the P99 with little load
// (sequences on at most 0.3 of the places), which more replicas do not improve.
//
// Unknown figures neither add nor remove a replica.
//
// The policy "threshold" knows no SLO: it adds a replica when 0.85 of the places or KV blocks have been in use
// for 5 s, or sequences queue, removes one after 60 s in which the others would have used at most 0.6, and
// then waits for 30 s. With "static" a model wants Replicas, whatever its load.
//
// # Which devices
//
// The phases of a plan give missing replicas their devices: minimums; then waking models and missed SLOs;
// then headroom; then batch work. In each phase the models with the higher priority come first, and those
// of the same priority get one replica in turn. A replica with several devices (Group) gets all of them on
// one node, and on one island if possible.
//
// A device admits a replica if it works, answers and neither drains nor is quarantined; its engines are of the model's
// kind; no replica of the model may still come back there; it did not fail to start the model lately; it has the memory
// (core/hbm); it has no replica of the same model, except for minimums and held numbers; and it is not of a critical
// model. Critical models only use devices of their own. Other models join a device that others use if its utilization
// is under 0.4, or under 0.8 for batch models; for a minimum or a wake any utilization will do, and for high and
// standard models batch models do not count. Weights that no replica uses take no memory, since they can be evicted.
//
// Of the devices that admit it, the best one has the fewest replicas of the model, then no other model, then
// the fewest replicas of the model on its node, then the nearest weights (Where), then the least utilization,
// then the most memory. With the placement "least-loaded", utilization and the number of replicas decide
// alone.
//
// If none admits it, replicas leave. Strictly lower priorities are preempted, down to their minimums: all of them
// for minimums, wakes and missed SLOs, batch models only for headroom, and none for batch work. The minimum of a model
// may also take the place of a less important minimum. A replica without requests for a minute leaves for any model
// that is woken or misses its SLO, unless its own model is critical, but for a wake by the same or a lower priority
// only if
//
//	E / 10 >= D - now
//
// with E the expected time until its own next request, and D = arrival of the oldest request + WakeWait - load, when a
// load must begin to end just within the wait: it keeps its place while its next request comes before D with a
// probability of about 1/10 or more, since that would bring it back. Without WakeWait this does not apply. For a model
// without any replica (wake) one of the same priority with requests leaves too, at D, so that requests are gathered by
// model. Neither happens before the replica has been there for its residence: 30 s, and 4 times the shortest load of
// its model that is known, of weights on the device, in host memory or on a disk. The lowest priority leaves first, of
// the same priority the model without requests, then the one with the least demand per byte, then the one that was used
// the longest ago. Demand is the average rate of some minutes, or 1/E without requests. If a replica that has not been
// there for its residence has at most half of the demand per byte, the requests wait for it instead, up to the
// residence longer. Pinned and held replicas stay; what they keep away is refused, with their names. The priority of a
// model changes at most once within the residence of its replicas.
//
// E is learned from the times without a request (gaps.go), of which those of at least 30 s count. After a time t
// without one, with s the largest of 30 s, 1 min, 2 min and so on that is not above t,
//
//	E = (seconds by which gaps exceeded s + s) / (gaps over s that have ended + 1)
//
// This is the mean residual life of exponential gaps beyond s. A model with bursts is expected soon while a burst
// lasts, and late after it, which its average rate does not tell. Gaps before the last 16 to 32 count less.
//
// # Replacing replicas
//
// Replicas that do not match the deployment (Outdated), and those on devices that drain or are quarantined,
// are replaced. A substitute starts first, on the same device if there is room, and the old replica leaves when
// the substitute serves, or as many others as the model wants. At most one replica more than the maximum is
// there at once. An old replica that does not serve yet leaves at once.
//
// Without room for a substitute beside it, an outdated replica leaves first, if all others serve. If that frees
// too little, since others use its weights on the device, these leave with it. If the substitute would not fit
// then either, they stay. One on a draining device stays.
//
// If a model wants fewer replicas, those to be replaced leave first; then those that do not serve; then one on
// the device and the node with the most replicas of the model; then the one with the fewest sequences; then
// the newest.
//
// When nothing else has changed for a model for 10 s, one of its replicas may move, one in the pool at a
// time, also by a substitute. It moves to a device with at least two replicas of the model fewer, or with
// one fewer if its node has at least two fewer; or, after its residence, from a device with a utilization
// over 0.4 that it shares (over 0.8 for batch models), to an empty one. Each move lowers the sum of
// squares of the model's replicas per device, else the one per node, else the number of shared places, so
// that moves end. A model whose substitute fails does not move again for 5 minutes. Pinned and held models
// do not move, nor replicas with several devices.
//
// # Never stuck
//
// A start that fails, or takes over 2 minutes and 4 times the expected load, is withdrawn. The model is not
// tried again on those devices for 10 s, which doubles with each failure up to 10 minutes, unless its Revision
// changes. An assignment that has not begun is withdrawn when the replicas that serve are enough, but not
// within 10 s (2 RecentWindow) of a change of their number, or what a spike has added would be given up at once.
// One that waits for others to leave (After) is not late before those have had 30 s for their sequences and
// 2 minutes more; if one of them stays after all, it is withdrawn.
//
// A device that fails takes its replicas with it. Those on a silent device count as they are.
//
// What a model does not get is in Unmet, with the closest device, the memory that it lacks, and the models that
// would make room. Later is set if there may soon be room, so that requests wait: a replica of the model starts,
// a node has been away or a device silent for under 30 s, a node leaves or is just back, a backoff ends within
// 30 s, or replicas can leave after their residence.
//
// # Invariants of plans
//
// Checked by name in TestPlanInvariants, TestPlanSettles, TestPlanFollowsSteps, TestPlanIsMonotone and
// TestMovesEnd:
//
//   - same: the order of the snapshot does not matter, and the same snapshot gives the same plan
//   - complete: each replica that is there is assigned where it is, or departs, with a reason
//   - unique: no name is assigned twice
//   - usable: nothing new is on a device that failed, drains, is quarantined or does not answer
//   - whole groups: a replica has all of its devices, on one node
//   - memory: a device with a new replica keeps its reserve and the minimum of each replica
//   - critical: no other model is on a device with a critical one
//   - range: no model has more than its maximum and one, unless more were there before; the maximum of a
//     held one is at least its number
//   - held, pinned: such a model loses no replica to another one
//   - substitute first: replicas that are replaced leave when as many others serve, except one at a time that
//     leaves first, without room for a substitute, and those that share its weights
//   - removal order: no replica that serves is surplus while one that does not serve stays
//   - moments: a device has the memory of its replicas after the change of each model, in any order; a replica
//     that waits for others takes none before they have left
//   - rebalance: moves end, and each one improves the spread of the model's replicas
//   - no preemption upwards: a replica leaves for a model with a lower priority only without work
//   - no preemption sideways: it leaves for one with the same priority without work, or for a wake, after
//     its residence
//   - minimums: a model below its minimum loses a replica only to a more important minimum
//   - settled: with a constant demand, plans stop changing
//   - steps: a step of demand is followed with at most one reversal, to a number that meets the SLO
//   - monotone: one device more does not cost a model of the highest priority a replica, unless it gives a minimum
//     of a lower one a place
//
// # Revisions
//
// Judge compares the files that a replica loaded with those of its deployment's revision.
package schedule
