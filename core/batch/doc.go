// Package batch decides which sequences enter a replica's next step, and with how many tokens each.
//
// A step first gives one token to every running sequence that decodes. It then fills its token
// budget with chunks of prefills, and then admits waiting sequences by class and arrival. If no
// block is left for a sequence, the last sequence in that order is preempted. A preempted sequence
// returns to the queue and is recomputed later, except for its blocks that are still cached. A
// waiting sequence preempts sequences of lower classes if it needs their places or blocks.
//
// Clients of a class share what the higher classes leave, by weight; see share.go and preempt.go.
// The client that received the fewest tokens is served first. A waiting sequence also preempts
// sequences of clients in its class that hold more than its own client, as long as they keep at
// least as much. With a single client this does not change the order.
//
// While several clients use a replica, its steps are short. The step of a new client's prompt
// leaves out clients with more sequences; see contention.go.
//
// One step is in flight at a time: Plan, then Done with all its entries. Blocks are allocated only
// between steps. A sequence may therefore be dropped at any time: a block that the step in flight
// still writes to is not reused before the step ends.
//
// A running sequence can migrate to the scheduler of another replica. The target's Reserve
// allocates blocks for it, and the source's Hold takes it out of the plans once its blocks are
// copied. The target's Adopt continues it, and the source's Drop frees it. Until Adopt the
// migration can be cancelled: Resume at the source and Abandon at the target.
//
// A sequence whose first blocks are being restored is held meanwhile. StartRestoring starts it
// before the restore has ended; see overlap.go.
//
// A simulator ends a run of steps that only decode at once; see steady.go.
//
// Invariants, checked by the property tests:
//
//   - budget: a step has at most StepTokens tokens, and at most MaxSequences sequences run
//   - covered: an entry's blocks cover its positions, and no two sequences write to one block
//   - progress: a sequence that is not dropped finishes
//   - contiguous: a sequence's emissions have the indices len(Output), len(Output)+1, …
//   - classes: nothing is admitted while a sequence of a higher class waits that would fit
//   - fair: of the clients that wait in one class, none is further ahead in virtual tokens than a
//     step and its running sequences
//   - conservation: when no sequence is left, every block is free
//   - owned: a block that is still being written belongs to one sequence or reservation
//   - arrived: a block that is still being filled is never offered for sharing
//   - places: running, held and reserved sequences never exceed MaxSequences
package batch
