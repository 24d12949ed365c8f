// Package export decides which blocks a holder sends to replicas of other nodes, and how long it
// keeps them for that: LeaseBlocks and ReleaseBlocks. Tiers below HBM and replicas are holders.
//
// A Machine is fed one event at a time and returns Effects, which its caller carries out in order.
// The machine has exports by request id, and knows blocks by their number at the holder. It sees no
// bytes, and has no use for the time: the caller ends a Send after its Within.
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
// The caller reports locked while it carries out lock, before any other event.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - answered: each lease is answered once: at once if it is refused, otherwise when it ends. A
//     repeated request changes who is answered
//   - locked: blocks are locked exactly while their export is locking, sending or ending
//   - bounded: at most 8 exports at a time, and none is kept longer than 10 s
//   - own: a holder with blocks of its own sends no others
//   - damaged: a damaged block is dropped before it is unlocked, and is not counted as sent
//   - ignored: an ignored event changes nothing
package export
