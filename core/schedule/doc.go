// Package schedule decides how many replicas a deployment has, on which GPU each is placed, which
// change comes next, and which replicas may serve. Every decision comes with a reason.
//
//   - Place chooses a GPU for one replica. Rebalance moves one replica to a better GPU.
//   - NextChange compares the replicas of a deployment with its spec and returns one change.
//   - Scaler raises and lowers the number of replicas with the load.
//   - Judge compares the files that a replica loaded with those of its revision.
package schedule
