// Package migrate decides how running sequences migrate between replicas of a model: a Source on
// the replica that a sequence leaves, and a Target on the replica that it moves to.
//
// Both take events with the current time and return Effects, which the caller carries out in order.
// For an effect that needs an immediate answer (StartNext, Reserve, Adopt, AnswerOffers), the
// caller reports another event before it carries out the next effect. The machines never see a
// message, the content of a block or a clock. They own neither the batch nor the blocks: each event
// carries the progress of its sequence to the Source, and the Target requests reservations with
// effects.
//
// A sequence keeps decoding at the source while its full blocks are sent. It is held, from the end
// of a step, only while the last blocks are sent. It belongs to the source until the target has
// answered SendResume, and after any earlier failure it continues at the source. Another actor, the
// data plane, sends and receives the blocks (SendBlocks, OpenSink); PlaneLost reports its crash.
//
// # Source
//
// The first row that fits an event applies; an event without a row is ignored. "Abort" resumes the
// sequence here, notifies the target, cancels a send in progress, logs the outcome and starts the
// next migration. Blocks that are sent are referenced until Sent or SendFailed.
//
//	event          state                guard                             next       effects
//	started        waiting              not on this replica               ended      report
//	               waiting              already migrating                 ended      report
//	               waiting              4 others migrate                  same       —
//	               waiting              queued                            offering   hold; watch, offer; set the timer
//	               waiting              in its first step, or restoring   same       —
//	               waiting                                                offering   watch, offer; set the timer
//	offered        offering             many blocks, beyond the transfer  ended      abort
//	               offering             more than a step fills            copying    send the full blocks
//	               offering             in flight                         pausing    hold
//	               offering             last blocks, beyond the transfer  ended      abort
//	               offering             last blocks                       finishing  hold; send the last blocks
//	               offering                                               resuming   hold; ask to resume
//	               ended                the sequence moved                same       ignore
//	               ended                                                  same       abandon the reservation
//	offer-refused  offering                                               ended      abort
//	sent           copying              many blocks, beyond the transfer  ended      abort
//	               copying              more than a step fills            copying    send the full blocks
//	               copying              in flight                         pausing    hold
//	               copying              last blocks, beyond the transfer  ended      abort
//	               copying              last blocks                       finishing  hold; send the last blocks
//	               copying                                                resuming   hold; ask to resume
//	               finishing                                              resuming   ask to resume
//	               ended                                                  same       —
//	send-failed    copying, finishing                                     ended      abort
//	               ended                                                  same       —
//	step-ended     pausing              in flight                         same       —
//	               pausing              last blocks, beyond the transfer  ended      abort
//	               pausing              last blocks                       finishing  send the last blocks
//	               pausing                                                resuming   ask to resume
//	resumed        resuming                                               ended      redirect the session; drop
//	resume-failed  resuming                                               ended      abort
//	timer          offering, resuming   repeated 8 times                  ended      abort
//	               finishing            paused for more than 2 s          ended      abort
//	               offering … resuming  offered more than 2 min ago       ended      abort
//	               offering, resuming                                     same       repeat; set the timer
//	               offering … resuming                                    same       set the timer
//	               ended                                                  same       —
//	lost           offering … resuming                                    ended      abort
//	cancelled      offering … resuming                                    ended      abort
//	plane-lost     copying, finishing                                     ended      abort
//	stopped        offering … resuming                                    ended      abandon; unwatch
//
// A command is in progress until each of its sequences has a report. Then it is answered. A
// repeated command gets the same answer.
//
// # Target
//
// An attempt that has neither a reservation nor an answer is gone, and so is an unknown attempt. An
// offer ends an earlier attempt of the same source, as the event abandoned does, unless the
// sequence runs here. The source also abandons an attempt whose offer was refused, since a repeated
// offer may have been accepted meanwhile.
//
//	event         state                        guard                   next       effects
//	offer         new                          must wait, queue full   gone       —
//	              new                          must wait               postponed  keep the offer
//	              new                          refused by check        gone       refuse
//	              new                                                  reserving  keep the offer; reserve
//	              receiving                                            same       accept again
//	              expecting                                            same       accept again
//	step-ended    postponed                    blocks not free         same       —
//	              postponed                    refused by check        gone       release adapter; refuse
//	              postponed                                            reserving  reserve
//	not-reserved  reserving                    its adapter is loading  postponed  —
//	              reserving                                            gone       release adapter; refuse
//	reserved      reserving                    no blocks               expecting  watch; accept; set the timer
//	              reserving                                            opening    open the transfer
//	opened        opening                                              receiving  watch; accept; set the timer
//	open-failed   opening                                              gone       free the blocks; refuse
//	opened        releasing                                            same       —
//	open-failed   releasing                                            same       —
//	resume        receiving                                            closing    keep the message; close the transfer
//	              expecting                    not serving             refused    release adapter; refuse
//	              expecting                                            adopting   keep the message; adopt
//	              closing, adopting                                    same       —
//	              running, claimed, refused                            same       answer again
//	              any other                                            same       refuse
//	closed        closing                      not serving             refused    free the blocks; refuse
//	              closing                      blocks are missing      refused    free the blocks; refuse
//	              closing                                              adopting   adopt
//	              releasing                                            gone       free the blocks; answer offers
//	adopted       adopting                                             running    answer
//	not-adopted   adopting                                             refused    refuse
//	claim         running                                              claimed    —
//	abandoned     postponed                                            gone       release the adapter
//	              opening, receiving                                   releasing  close the transfer
//	              closing                                              releasing  —
//	              releasing, gone                                      same       —
//	              expecting                                            gone       release the adapter
//	              running                      still here              gone       cancel its migration; drop it
//	              running, claimed, refused                            gone       —
//	timer         receiving … refused          heard in 5 s            same       set the timer
//	              receiving                                            same       ask the data plane; set the timer
//	              expecting                                            gone       release the adapter
//	              closing                                              same       set the timer
//	              running, claimed, refused                            gone       —
//	              releasing, gone                                      same       —
//	heard         receiving                    silent for 5 s          releasing  close the transfer
//	              receiving                                            same       —
//	              closing … gone                                       same       —
//	lost          postponed                                            gone       release the adapter
//	              opening, receiving                                   releasing  close the transfer
//	              closing                                              releasing  —
//	              expecting                                            gone       release the adapter
//	              refused                                              gone       —
//	              running, claimed, releasing                          same       —
//	plane-lost    opening                                              gone       free the blocks; refuse
//	              receiving                                            gone       free the blocks; answer offers
//	              closing                                              refused    free the blocks; refuse
//	              releasing                                            gone       free the blocks; answer offers
//	              without a transfer                                   same       —
//	stopped       postponed … releasing                                gone       unwatch
//
// An offer waits while a step is in flight, and until the blocks of an earlier attempt are free. It
// waits at most 1.5 s for its adapter. It is refused if the replica is not serving or its blocks
// have another shape, if the sequence is already here or is too long, or if 8 sequences are already
// arriving. Reserve checks everything else.
//
// # Invariants
//
// Checked by name in TestInvariants, which runs a Source and a Target against each other while
// messages are lost, repeated and reordered and both data planes crash:
//
//   - owned: a sequence that has not ended is on the source or on the target at any time
//   - sole: once its session has contacted the target, it is on the target alone; no attempt starts
//     it twice
//   - continues: after a failed attempt, and only then, it is no longer held
//   - frozen: it stays held from the pause on, no step fills a block that is being sent, and the
//     target resumes it with exactly the tokens that it had at the source
//   - complete: the target starts it only if all of its blocks have arrived with their final
//     content
//   - closed: blocks are freed or used only after the transfer into them is closed
//   - retained: exactly the blocks that sends read are referenced
//   - kept: when Reserve is carried out, the offer is still kept and no step of the target is in
//     flight
//   - released: at the end no reservation, transfer, adapter pin, reference or message is left, and
//     no two reservations of a sequence exist at a time
//   - ends: every attempt ends exactly once, within 2 min and 250 ms; a pause takes less than 5 s
//   - answered: every command is answered once for each time it is sent, with a report for each
//     sequence; no message of an attempt is repeated after the attempt has ended
//   - repeated: a repeated SendResume gets the same answer until the target has forgotten it
//   - watched: the other replica is watched exactly while it takes part in a migration
//   - bounded: at most 4 sequences leave, 8 arrive and 16 offers wait
//   - ignored: an ignored event changes nothing
package migrate
