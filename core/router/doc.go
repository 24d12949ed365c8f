// Package router decides what the router of a node knows, what it announces to other routers, and
// how it answers queries: which replica serves a request, which holders have KV blocks, and why a
// request was routed as it was. Its policy, which selects the replica, is core/route.
//
// A Machine takes events with the current time and returns Effects, which the caller carries out in
// order. Queries return their answers directly. The caller stores the reports of replicas and the
// statuses of deployments, which queries and snapshots contain, as instructed by KeepReplica,
// DropReplica, KeepStatus and DropStatus. The machine stores only what its decisions depend on.
//
// Each router announces the changes on its node in numbered announcements. The first announcement
// that a peer applies is a snapshot, and each later one must have the next number. Incarnations of
// a router are numbered in ascending order.
//
// # Peers
//
// A router follows a node from the time at which the node joins the cluster. The first row that
// fits an event applies. A snapshot is requested at most every 0.5 s. If it is lost, the next
// announcement, which follows within 0.5 s, causes another request. "Forget its node" drops the
// replicas, statuses and tiers that came from it.
//
//	event      state            guard                      next     effects
//	joined     absent                                      syncing  send and request a snapshot
//	           member           another process            syncing  forget its node; send and request a snapshot
//	           member                                      same     —
//	left       member                                      absent   forget its node
//	announced  absent           not a member               same     ignore
//	           member           of an earlier incarnation  same     ignore
//	           member           a newer snapshot           synced   forget its node; apply
//	           member           of a later incarnation     syncing  request a snapshot
//	           synced, lagging  applied before             same     ignore
//	           synced, lagging  the next one               synced   apply
//	           synced, lagging                             lagging  request a snapshot
//	           syncing                                     same     request a snapshot
//
// Announcements of the same incarnation are numbered. An announcement was "applied before" if its
// number is not above that of the last applied one.
//
// Two nodes may have a replica of one name for a while, if the name was used again while one of them was
// away. The router knows the blocks of one of them only. When it turns to the other one, it has missed some
// of its reports. With each report it then requests a snapshot from the replica's node, or, on its own node,
// a report with all blocks from the replica, until it gets one. Such a snapshot of a node is applied even if
// its number is that of the last announcement.
//
// Independently of this, the router tracks whether it hears from a peer. If it does not, it avoids
// the peer's replicas and tiers: a request is routed there only if no other replica serves.
//
//	event      state          guard                     next     effects
//	joined     any            another process           unheard  —
//	           any                                      same     —
//	announced  unheard                                  heard    watch its router
//	           heard, silent                            heard    —
//	aged       heard          silent for 1 s            silent   —
//	           any                                      same     —
//	credited   silent         silent for less than 1 s  heard    —
//	           any                                      same     —
//	lost       any                                      unheard  —
//
// A router that stalled could not have received messages, so the time by which its timer fired late
// does not count as silence of its peers.
//
// # Router
//
//	event       state               guard               next         effects
//	store-read  starting            no peer is syncing  ready        report that it is synced
//	            starting                                catching-up  —
//	            catching-up, ready                      same         —
//	changed     catching-up         no peer is syncing  ready        report that it is synced
//	            any                                     same         —
//
// In starting, the router does not know yet what is deployed, so it routes requests to any known
// replica. In the other states it serves only stored deployments. If no replica can serve a
// request, the router refuses it for the first of these reasons that applies: the output was
// computed by files that are neither served nor deployed; the node is starting; the model is not
// deployed; it is stopped; it is kept at a level below active and requests do not wake it; it is
// preempted; it failed. Otherwise the model is asleep, at such a level, or starting, and the request
// waits.
//
// # Waiting requests
//
// Requests wait in the order of core/wake, and are answered in this order as soon as a replica
// serves, or a reason to refuse them applies. A request that asks for it also waits while an operator
// keeps the model at such a level, while it is preempted, or while no device has room for it. One that
// has begun, because a replica was found for it before, waits unless the model or each of its replicas
// is parked. The router reports their number to the group of deployments on the node that leads the
// model's deployment, which is known from its status, with the number of those that may wake it: all
// but those that waited when the router learned of a level. Requests that are answered by the same event
// are not counted. The deployment wakes if it is asleep, or at a level below active and its minimum is 0.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - applied: the router's view of a peer's node is the state of that node as of the last
//     announcement that was applied
//   - forward: the applied announcements of a peer never go back in incarnation or number
//   - retry: a peer is asked for a snapshot at most every 0.5 s, and asked whenever an announcement
//     cannot be applied and the peer was not asked within that time
//   - numbered: announcements have consecutive numbers and go to all peers, in the order of their
//     names, at least every 0.5 s
//   - shared: each change on this node is in the next announcement, and in no other
//   - members: replicas, statuses and tiers come from this node and from members
//   - kept: the reports and statuses that the caller keeps are those of the known replicas and
//     deployments
//   - silence: a peer is avoided if and only if it is leaving, has not been heard since its
//     connection broke, or was not heard for 1 s; a stall of this router does not count
//   - watched: the router of a peer is watched when it is first heard on a connection
//   - terms: a status that a peer announces does not replace one of a later term
//   - once: the router reports at most once that it is synced, and only when the store was read and
//     every peer has sent a snapshot
//   - routed: a request goes to a known replica that serves, and to an avoided one only if no other one does;
//     if none serves, a request with output goes to one on standby
//   - decided: each request is routed, refused, or waits, and a route or a refusal is the last
//     decision in the log
//   - waits: after each event a request waits if and only if no replica serves its model and there is
//     no reason to refuse it
//   - order: waiting requests of a model are routed by class, the highest first, then by arrival
//   - answered: a request that was routed or refused, or whose session has ended, does not wait
//   - command: requests that waited when an operator set a level are not reported as ones that wake the
//     model
//   - bounded: the log has at most 1,024 requests with 8 entries each, a snapshot at most 8,192
//     blocks of each replica and tier, and an answer about blocks at most 8 runs
//   - runs: the runs of an answer are consecutive and their holders have the blocks; none of them is
//     the requesting replica, a tier of this node, or on a node that is not heard
//   - ignored: an ignored event changes nothing except the time at which the peer was last heard
//   - converges: once messages arrive again, all routers know the same
package router
