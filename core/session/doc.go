// Package session decides how one sequence that a client requested is served: which replica gets
// it, what happens when that replica refuses, interrupts, loses or migrates the sequence or falls
// silent, and when the session ends.
//
// A Machine is fed events with the time and returns Effects, which its caller carries out in order.
// Tokens arrive by index. The machine counts those that the client has, drops repeated ones and
// notices gaps. It never sees a token, a message or a clock.
//
// # Transitions
//
// The first row that fits an event applies; an event without a row is ignored. Every transition to
// ended but the last one also cancels another sender of tokens and ends the actor. "The replica" is
// the assigned one; a message without a sender counts as coming from it.
//
//	event           state               guard                             next       effects
//	start           created                                               routing    ask the router
//	routed          routing … waiting                                     submitted  abandon silent; watch, submit
//	route-refused   routing … waiting   final                             ended      relay the refusal
//	                routing … waiting   deadline passed                   ended      fail: deadline
//	                routing … waiting                                     delayed    set the timer
//	queued          routing … waiting   deadline passed                   ended      fail: deadline
//	                routing … waiting                                     waiting    set the timer
//	accepted        submitted, serving  not from the replica              same       ignore
//	                submitted, serving                                    serving    keep the revision
//	submit-refused  submitted, serving  not from the replica              same       ignore
//	                submitted, serving  final                             ended      relay the refusal
//	                submitted, serving  deadline passed                   ended      fail: deadline; cancel
//	                submitted, serving  faulty                            delayed    avoid it; unwatch; set the timer
//	                submitted, serving                                    delayed    unwatch; set the timer
//	emitted         routing … serving   first, of unknown files           same       ignore
//	                routing … serving   of other files, from the replica  routing    unwatch; ask the router
//	                routing … serving   of other files                    same       cancel there
//	                routing … serving   after a gap, from the replica     routing    unwatch; ask the router
//	                routing … serving   after a gap                       same       note the other replica
//	                routing … serving   last, from the replica            ended      deliver
//	                routing … serving   last                              ended      deliver; cancel
//	                submitted           from the replica                  serving    deliver
//	                routing … serving                                     same       deliver; note the other replica
//	interrupted     submitted, serving  not from the replica              same       ignore
//	                submitted, serving  of an earlier incarnation         same       ignore
//	                submitted, serving  final                             ended      relay the refusal
//	                submitted, serving  preempted                         delayed    unwatch; set the timer
//	                submitted, serving  too many without a token          ended      fail: engine failed
//	                submitted, serving  deadline passed                   ended      fail: deadline; cancel
//	                submitted, serving  faulty                            delayed    avoid it; unwatch; set the timer
//	                submitted, serving                                    delayed    unwatch; set the timer
//	status          submitted, serving  not from the replica              same       ignore
//	                submitted, serving  sequence or tokens lost           submitted  submit again
//	                submitted, serving                                    serving    —
//	moved           submitted, serving  to the replica                    same       ignore
//	                submitted, serving  not from the replica              same       cancel there
//	                routing … serving                                     submitted  tell the router; watch, query
//	lost            submitted, serving  not from the replica              same       ignore
//	                submitted, serving  deadline passed                   ended      fail: deadline; cancel
//	                submitted, serving                                    delayed    avoid it; unwatch; set the timer
//	timer           routing … serving   of an earlier attempt             same       ignore
//	                routing … serving   deadline passed                   ended      fail: deadline; cancel
//	                routing … waiting                                     routing    ask the router
//	                submitted, serving  unanswered for 10 s               routing    avoid it; unwatch; ask the router
//	                submitted, serving  silent for 1.2 s                  routing    unwatch; ask the router
//	                submitted, serving  silent for 0.4 s                  same       query; set the timer
//	                submitted, serving                                    same       set the timer
//	close           created … serving                                     ended      cancel
//	                ended               again                             same       ignore
//	stop            any                                                   ended      unwatch; stop the timer
//
// In waiting, no replica serves the model yet, and the router of this node has given the sequence a
// place in order of class and arrival. The session asks for it again each second: a router that has
// crashed knows no places, and a place that is not asked for is given away. A session that is closed
// while it waits withdraws the sequence. A sequence that has begun is not refused for a level that an
// operator sets later.
//
// Any replica may also send tokens while another one is assigned: it is about to take over, or has
// not learned that it was replaced. The machine remembers one such sender at a time and delivers
// its tokens. It cancels that sender once the assigned replica still sends 0.4 s later, when a
// third replica sends, and at the end.
//
// Tokens name the files that computed them. If two replicas with different files were given the sequence
// before there was output, the client gets the tokens of one of them only. First tokens are ignored while
// no replica has accepted the sequence: the digest of their files would not be known to the router.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - once: the client gets each token once, in order, without gaps
//   - outcome: the client gets at most one outcome, a finish or a failure, and then the session is
//     ended
//   - ended: after the end nothing happens but the release of the replica and the timer
//   - assigned: in submitted and serving one replica is assigned and watched, else none
//   - timer: while the session lives, a timer of the current attempt is set; it never waits for a
//     message alone
//   - stale: a timer of an earlier attempt changes nothing, nor does an answer of another replica than the
//     assigned one
//   - deadline: from the deadline on, no session waits for another try, or survives its next timer
//   - silence: a replica is queried after 0.4 s of silence and abandoned after 1.2 s, no sooner; a
//     stall of this process does not count
//   - avoided: a route request avoids the replicas that were lost, were faulty, or did not answer for
//     10 s since the last new token
//   - bounded: at most 8 interruptions without a new token, and at most 2 by faulty replicas
//   - place: a session gets its place when a replica is first found, or when it begins to wait for
//     one, or has output, keeps it for its life, and is not refused before its deadline because its model is preempted
//   - begun: the router learns that a sequence has begun if and only if a replica was found for it, or
//     it has output; a crash of the session changes nothing of that
//   - revision: output is continued only with the files that computed it, no token of other files is delivered,
//     and the digest, once known, changes only while there is no output
//   - loyal: the sequence is cancelled at the assigned replica only at the end
//   - ignored: an ignored event changes nothing
//   - released: after Stop no replica is watched and no timer is set
package session
