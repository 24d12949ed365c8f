// Package schedule decides which devices run which models. Make turns a Snapshot of the pool into a Plan:
// every replica that is to be there, with its devices and the reason.
//
// A plan starts from what runs. Replicas stay where they are unless something is gained, so the plan for a
// pool that suits the demand changes nothing.
//
// # How many replicas
//
// A policy says how many replicas a model wants, and how urgently (Want). It knows nothing of devices, and
// the plan nothing of the load. With the defaults of Options, a model wants
//
//   - at least Min and at most Max replicas;
//   - none after 5 minutes without a request (IdleAfter), if Min is 0, and one when requests wait (wake);
//   - ceil(rate / capacity), if a profile says which rate a replica serves within the SLO;
//   - else ceil(replicas × P99 / SLO), for TTFT or TPOT, at most twice as many at once (missed). The P99
//     counts once all replicas have served for a window of 60 s, since it remembers the time before;
//   - ceil(replicas × recent rate / rate) at a spike: the rate of the last 5 s is over twice that of the
//     window, and there were at least 10 requests in it;
//   - one more with little headroom: P99 × recent rate / rate is over 0.8 of the SLO, KV blocks are over
//     0.9 full, sequences are on over 0.85 of the places, or they queue;
//   - one fewer, after 60 s in which the remaining replicas would have carried the load: with the load that
//     each of those would have, the P99 is at most 0.65 of the SLO, at most 0.6 of the places are in use, and
//     the rate per replica is under 0.9 of any at which there was too little headroom before;
//   - as many as have work for all of their places, if it is a batch model.
//
// What is unknown never takes a replica away. Known figures alone add one.
//
// # Which devices
//
// The phases of a plan give missing replicas their devices: minimums; then waking models and missed SLOs;
// then headroom; then batch work. In each phase the models with the higher priority come first, and those
// of the same priority get one replica in turn. A replica with several devices (Group) gets all of them on
// one node, and on one island if possible.
//
// A device admits a replica if it works, did not fail to start the model lately, has the memory (core/hbm),
// has no replica of the same model, and is not of a critical model. Critical models only use devices of
// their own. Other models join a device that others use if its utilization is under 0.4, or under 0.8 for
// batch models; for a minimum or a wake any utilization will do. Of the devices that admit it, the best one
// has no other model, then the weights or else an image of them in its node, then the least utilization.
//
// If none admits it, replicas leave. Strictly lower priorities are preempted, down to their minimums; the
// minimum of a model may also take the place of a less important minimum. A replica without requests leaves
// for any model that is woken or misses its SLO. For a model without any replica (wake) one of the same
// priority leaves too, once the requests have waited so long that a load ends just within their wait
// (WakeWait), so that requests are gathered by model. Neither happens before the replica has been there for
// its residence: 30 s, and 4 times its load. The lowest priority leaves first, of the same priority the
// model without requests, then the one with the least demand per byte, then the one that was used the
// longest ago.
//
// # Never stuck
//
// A start that fails, or takes over 2 minutes and 4 times the expected load, is withdrawn. The model is not
// tried again on those devices for 10 s, which doubles with each failure up to 10 minutes. An assignment
// that has not begun is withdrawn when the replicas that serve are enough.
//
// A device that fails takes its replicas with it. Those of a draining device leave when as many others
// serve as the model wants.
//
// Models that an operator holds (HeldBy) do not change, unless a device fails. Pinned ones keep their
// places.
//
// # Invariants of plans
//
// Checked by name in TestPlanInvariants, TestPlanSettles, TestPlanFollowsSteps and TestPlanIsMonotone:
//
//   - same: the order of the snapshot does not matter, and the same snapshot gives the same plan
//   - complete: each replica that is there is assigned where it is, or departs, with a reason
//   - unique: no name is assigned twice
//   - usable: nothing new is on a device that failed or drains
//   - whole groups: a replica has all of its devices, on one node
//   - memory: a device with a new replica keeps its reserve and the minimum of each replica
//   - critical: no other model is on a device with a critical one
//   - range: no model gets more than its maximum
//   - held, pinned: such a model loses no replica to another one, and a held one gains none
//   - no preemption upwards: a replica leaves for a model with a lower priority only without work
//   - no preemption sideways: it leaves for one with the same priority without work, or for a wake, after
//     its residence
//   - minimums: a model below its minimum loses a replica only to a more important minimum
//   - settled: with a constant demand, plans stop changing
//   - steps: a step of demand is followed with at most one reversal, to a number that meets the SLO
//   - monotone: one device more does not cost a model of the highest priority a replica
//
// # One deployment
//
// Until deployments converge to assignments, they use these functions instead:
//
//   - Place chooses a GPU for one replica. Rebalance moves one replica to a better GPU.
//   - NextChange compares the replicas of a deployment with its spec and returns one change.
//   - Scaler raises and lowers the number of replicas with the load.
//   - Judge compares the files that a replica loaded with those of its revision.
package schedule
