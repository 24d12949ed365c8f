// Package router decides what the router of a node knows, what it tells the other routers, and how
// it answers: which replica a request gets, who has KV blocks, and why a request was routed as it
// was. core/route is its policy: it chooses the replica.
//
// A Machine is fed events with the time and returns Effects, which its caller carries out in order.
// Queries return their answers directly. The caller keeps the reports of replicas and the statuses
// of deployments for queries and snapshots, as KeepReplica and its kin say; the machine keeps what
// it decides by.
//
// Each router announces what changed on its node, in numbered announcements. The first one that a
// peer applies is a snapshot, and each later one must have the next number. An incarnation of a
// router has a higher number than those before it.
//
// # Peers
//
// A node is followed from the time at which it joins the cluster. The first row that fits an event
// applies. A snapshot is requested at most every 0.5 s; the next announcement, at most 0.5 s later,
// repeats the request. "Forget its node" drops the replicas, statuses and tiers that came from it.
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
// Announcements of the same incarnation are numbered. "Applied before" is one whose number is not
// above that of the last applied one.
//
// Whether a peer is heard from is independent of that. The replicas and tiers of a peer that is not
// heard are avoided: a request goes there only if no other replica serves.
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
// In starting, requests are routed to any known replica, because it is not known yet what is
// deployed. Otherwise only stored deployments are served. A request without a replica is refused for
// the first of these reasons that fits: the output was computed by files that are neither served nor
// deployed; the node is starting; the model is not deployed; it is stopped; it failed; it is
// starting.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - applied: what is known of a peer's node is the state of that node as of the last announcement
//     that was applied
//   - forward: the applied announcements of a peer never go back in incarnation or number
//   - retry: a peer is asked for a snapshot at most every 0.5 s, and whenever an announcement cannot
//     be applied and it was not asked in that time
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
//   - routed: a request goes to a known replica, and to an avoided one only if no other one serves
//   - decided: each request is routed or refused, never both, and the last decision in the log is it
//   - bounded: the log has at most 1,024 requests with 8 entries each, a snapshot 8,192 blocks of
//     each replica and tier, and an answer about blocks 8 runs
//   - runs: the runs of an answer are consecutive and their holders have the blocks; none of them is
//     the requesting replica, a tier of this node, or on a node that is not heard
//   - ignored: an ignored event changes nothing but when the peer was heard
//   - converges: once messages arrive again, all routers know the same
package router
