// Package leadership decides which deployments a node runs: when it acquires their leases, when it
// starts and stops them, and when it releases the leases.
//
// A Node has one role per deployment. The events are the node's view of the leases (Sync) and the
// outcomes of its effects (Answered, NotStarted, Ended, Removed). Each returns Effects for the
// caller to carry out, in order. The package never reads a clock: the caller passes the time.
//
//	event       state      guard    next       effects
//	sync        follower   ours     leading    start
//	            follower   leaving  releasing  release
//	            follower   turn     acquiring  acquire
//	            follower            same       retry after, while it waits for its turn
//	            acquiring           same       —
//	            leading    current  same       —
//	            leading             stopping   stop
//	            stopping            same       —
//	            releasing           same       —
//	answered    acquiring           follower   —
//	            releasing           follower   —
//	notStarted  leading             follower   —
//	removed     leading    deleted  stopping   stop
//	ended       leading    held     releasing  release; no acquire for CrashCooldown
//	            leading             follower   —
//	            stopping   held     releasing  release
//	            stopping            follower   —
//
// The guards: ours: this node holds the lease and is not leaving; leaving: it holds the lease and
// is leaving; turn: the lease is free, the cooldown is over, and each node of lower rank has had
// TakeoverDelay to acquire the lease; current: it holds the lease in the term of its child and is
// not leaving; deleted: the deployment is not stored, and the term is that of the child; held: it
// still holds the lease in the term of the child. Other events change nothing and return Ignored.
//
// Invariants, checked by the property test:
//
//   - one child: Start is returned only while no child of the deployment runs
//   - own term: a child is started in a term whose lease this node holds
//   - one attempt: at most one Acquire or Release of a deployment is in flight
//   - fenced: a child whose lease is lost is stopped by the next Sync
//   - stop first: a lease is not released while the child runs
//   - rank: a free lease is not acquired before the nodes of lower rank have had their time
//   - cooldown: a lease is not acquired within CrashCooldown after its child crashed
//   - leaving: a node that is not up acquires nothing and starts nothing
//   - forgotten: a deployment that is not stored, has no lease and no child is not remembered
package leadership
