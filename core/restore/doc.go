// Package restore decides which KV blocks of waiting sequences are restored from the tiers below
// HBM and from remote holders, and which are recomputed.
//
// A sequence that is about to be admitted is held while its first blocks are looked up and, if that
// is faster than recomputing them, copied. Other sequences with the same first missing block wait
// for it. Blocks that are copied in parts let the sequence start before the last part: its first
// step passes a gate at each part.
//
// A Machine is fed events and returns Effects, which its caller carries out in order. Reserve and
// StartSequence are answered at once, by Reserved and Started. The machine holds neither the
// scheduler nor the pool, and copies nothing: a copier does that.
//
// # Transitions
//
// An entry is a sequence, a command that restores a prefix, or the copies that either left behind.
// The first row that fits an event applies; an event without a row is ignored. "(copying)" are
// restoring, ready, overlapped, failed, preempted, taken and abandoned. "Wake" is the event woken
// for the entries that wait for this one. A held sequence that is queued again was resumed and ran
// meanwhile: it is first dropped.
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
// Commit offers the blocks that were copied for sharing. It is left out once the sequence has
// started with all of them: it offers full blocks itself, and may be writing to the last one.
//
// # Invariants
//
// Checked by name in TestInvariants, over a real scheduler and pool:
//
//   - once: of the sequences whose blocks are looked up or copied, no two have the same first
//     missing block
//   - limit: at most 8 sequences are looked up and restored at once
//   - locks: each lookup is ended exactly once, by Unlock or Copy, unless the copier restarted
//   - references: the blocks of Reserve are released exactly once, and not before the copies end
//   - alone: until the first step of a started sequence is done or its copies have ended, no other
//     sequence has its copied blocks
//   - content: no step reads a block whose content is not certain, unless it passes a gate
//   - gate: a gate is open from Copy to CloseGate, and whenever a step has to pass it
//   - failed: a sequence whose start was undone runs again only after its copies have ended
//   - steps: while a step is in flight, no block is reserved, committed or released, and no
//     sequence started
//   - released: every held sequence runs in the end
//   - answered: each command is answered exactly once
//   - counted: a lookup counts at most once, as restored or as avoided, and not at all if its
//     sequence no longer waits
//   - ignored: an ignored event changes nothing
//   - empty: without sequences, lookups and copies there are no entries
package restore
