// Package restore decides which KV blocks of waiting sequences are restored from the tiers below
// HBM and from remote holders, and which are recomputed.
//
// A sequence that is about to be admitted is held while its first blocks are looked up and, if that
// is faster than recomputing them, copied. Other sequences with the same first missing block wait
// for it. If blocks are copied in parts, the sequence can start before the last part has arrived:
// its first step waits at a gate for each part.
//
// A Machine takes events and returns Effects, which the caller carries out in order. The caller
// answers Reserve and StartSequence before any other event, with Reserved and Started. The machine
// owns neither the scheduler nor the pool. Another actor, the copier, copies the blocks.
//
// # Transitions
//
// An entry is a sequence, a command that restores a prefix, or the copies that either left behind.
// The first row that fits an event applies; an event without a row is ignored. "(copying)" are
// restoring, ready, overlapped, failed, preempted, taken and abandoned. "Wake" raises the event
// woken for each entry that waits for this one. If a held sequence is queued again, it was resumed
// and has run in the meantime, so its entry is dropped first.
//
//	event         state                     guard                     next        effects
//	queued        gone                                                pending     —
//	              pending                                             same        —
//	              overlapped                                          preempted   —
//	admissible    gone                                                same        —
//	              pending                   all blocks are in HBM     same        —
//	              pending                   no tier or holder         gone        —
//	              pending                   8 look up or restore      same        ignore
//	              pending                   first block is sought     waiting     hold
//	              pending                                             looking-up  hold; look up
//	prefetch      gone                                                looking-up  look up
//	looked-up     looking-up                                          found       —
//	              orphaned                                            gone        unlock; wake
//	judged        found                     command, nothing found    gone        unlock; answer
//	              found                     no longer waits           gone        unlock; resume; wake
//	              found                     recomputing is faster     gone        unlock; resume; wake; count
//	              found                                               reserving   reserve; count
//	reserved      reserving                                           restoring   copy
//	arrived       restoring                 the rest arrives in time  ready       tell
//	              (copying)                                           same        —
//	start         ready                                               same        start
//	started       ready                                               overlapped  —
//	step-done     overlapped                                          taken       count
//	step-aborted  overlapped                                          failed      undo
//	copied        (copying)                 not ended                 same        —
//	ended         restoring                 command                   gone        commit; release; answer
//	              restoring, ready, failed                            gone        commit; release; resume; wake
//	              overlapped                all were copied           gone        finish; release; wake
//	              overlapped                                          gone        undo; commit; release; resume; wake
//	              preempted                                           pending     commit; release; resume; wake
//	              taken                                               gone        release; wake
//	              abandoned                                           gone        commit; release; wake
//	woken         waiting                                             pending     resume
//	dropped       pending, waiting                                    gone        —
//	              looking-up                                          orphaned    —
//	              found                                               gone        unlock; wake
//	              restoring … preempted                               abandoned   —
//	lost          looking-up                                          found       —
//	              found                                               same        —
//	              orphaned                                            gone        wake
//	              (copying)                 not ended                 same        —
//
// "Commit" offers the copied blocks for sharing. It is omitted once the sequence has started with
// all of them, because the sequence then commits its full blocks itself and may be writing to the
// last one.
//
// # Invariants
//
// Checked by name in TestInvariants, with a real scheduler and pool:
//
//   - once: of the sequences whose blocks are looked up or copied, no two have the same first
//     missing block
//   - limit: at most 8 sequences are looked up and restored at once
//   - locks: each lookup ends exactly once, by Unlock or Copy, unless the copier restarts
//   - references: the blocks of Reserve are released exactly once, and not before the copies end
//   - alone: until the first step of a started sequence is done or its copies have ended, no other
//     sequence uses its copied blocks
//   - content: no step reads a block that may not have arrived, unless it waits at a gate first
//   - gate: a gate exists from Copy to CloseGate, and whenever a step has to pass it
//   - failed: a sequence whose start was undone runs again only after its copies have ended
//   - steps: while a step is in flight, no block is reserved, committed or released, and no
//     sequence is started
//   - released: every held sequence eventually runs
//   - answered: each command is answered exactly once
//   - counted: a lookup counts at most once, as restored or as avoided, and not at all if its
//     sequence no longer waits
//   - ignored: an ignored event changes nothing
//   - empty: without sequences, lookups and copies there are no entries
package restore
