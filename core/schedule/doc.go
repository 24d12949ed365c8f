// Package schedule chooses devices for replicas: how many replicas a deployment has, on which device each of them
// goes, which change comes next, and which of them may serve. Every decision is explained.
//
//   - Place chooses a device for one replica; Rebalance moves one to a better device.
//   - Next compares the replicas of a deployment with what was asked for, and returns one change.
//   - Scaler raises and lowers the number of replicas by their load.
//   - Judge compares the files that a replica has loaded with those of its revision.
package schedule
