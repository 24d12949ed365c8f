// Package batch decides which sequences enter a replica's next step, and with how many tokens each.
//
// A step first gives one token to every running sequence that decodes, then fills its token budget with chunks of
// prefills, then admits waiting sequences by class and arrival. A sequence that needs a block when none is left takes
// it from the last in that order, which goes back to the queue and is computed again later, except for the
// blocks that are still cached. A waiting sequence takes place and blocks from lower classes.
//
// Clients share what is left to their class, by their weights; see share.go and giveway.go. The client that was given the
// fewest tokens is served first. A waiting sequence also takes places and blocks from clients of its class that hold more
// than its own, and keep at least as much. With one client nothing of this changes the order.
//
// While several clients use a replica, its steps are short, and a newcomer's leaves out clients with more; see turns.go.
//
// One step is in flight at a time: Plan, then Done with all its entries. Blocks are given out between steps alone, so that
// a sequence may be dropped at any moment: what the step in flight still writes to is not reused before the step's end.
//
// A running sequence can be handed to the scheduler of another replica: there Reserve takes room for it, here Hold takes it
// out of the plans once its blocks are copied, there Adopt continues it, and here Drop frees it. Until Adopt it can go on
// here at any moment: Resume, and there Abandon.
//
// A sequence whose first blocks are being restored is held meanwhile, and can Begin before they are: see begin.go.
//
// Invariants, checked by the property test:
//
//   - budget: a step has at most StepTokens tokens, and at most MaxSequences sequences run
//   - covered: an entry's blocks cover its positions, and no two sequences write to one block
//   - progress: a sequence that is not dropped finishes
//   - contiguous: a sequence's emissions have the indices len(Output), len(Output)+1, …
//   - classes: nothing is admitted while a sequence of a higher class waits that would have fit
//   - fair: of clients that wait in one class none is further ahead in virtual tokens than a step and its running sequences
//   - conservation: when no sequence is left, every block is free
//   - owned: a block that is still to be written belongs to one sequence or reservation
//   - arrived: what a block holds that is still being filled is offered to nobody
//   - places: running, held and reserved are never more than MaxSequences
package batch
