// Package export decides which blocks a holder sends to replicas on other nodes, and how long it
// keeps the blocks for them. It handles LeaseBlocks and ReleaseBlocks. Holders are replicas and the
// tiers below HBM.
//
// A Machine takes one event at a time and returns Effects, which the caller carries out in order.
// It identifies exports by request id and blocks by their number at the holder. It never sees the
// content of a block and never reads a clock: the caller enforces the time limit Within of a Send.
//
// # Transitions
//
// The first row that fits an event applies; an event without a row is ignored.
//
//	event    state            guard         next     effects
//	lease    none             not ready     same     refuse: not ready
//	         none             unsupported   same     refuse: unsupported
//	         none             other blocks  same     refuse: conflict
//	         none             malformed     same     refuse: invalid
//	         none             too large     same     refuse: invalid
//	         none             too many      same     refuse: queue full
//	         none                           locking  lock
//	         sending, ending                same     replace the requester
//	locked   locking                        sending  send
//	release  sending                        ending   cancel
//	ended    sending, ending  failed        none     drop, unlock, refuse
//	         sending, ending                none     unlock, answer
//
// While it carries out lock, the caller reports locked, before any other event.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - answered: each lease is answered once: at once if it is refused, otherwise when it ends. A
//     repeated request replaces the requester that is answered
//   - locked: blocks are locked exactly while their export is locking, sending or ending
//   - bounded: at most 8 exports run at a time, and none lasts longer than 10 s
//   - own: a holder with Config.Own sends only the blocks that it describes
//   - damaged: a damaged block is dropped before it is unlocked, and is not counted as sent
//   - ignored: an ignored event changes nothing
package export
