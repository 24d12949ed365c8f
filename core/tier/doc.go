// Package tier decides how a KV tier below HBM serves requests to copy blocks to and from its
// slots: which request may write or read a slot, which one waits, when blocks are demoted, and
// which pins are in effect. The Tier of core/kv selects the slots and the blocks to evict.
// core/export selects the blocks that are sent to other nodes.
//
// A Machine takes one event at a time and returns Effects, which the caller carries out in order.
// It never reads a clock: it measures time in steps, and it sets timers with effects, whose expiry
// the caller reports as an event.
//
// # Transitions
//
// A request is identified by its id, and pins by their replica. A request in state none is unknown.
// A trigger without a row is ignored.
//
//	event      reservation       next     effects
//	refused    none              same     refuse: the blocks are too large
//	granted    none, waiting     granted  answer with slots
//	answered   none, waiting     none     answer without slots
//	queued     none              waiting  set the timer
//	repeated   waiting           same     replace the requester
//	           granted           same     answer again
//	timedOut   waiting           same     drop blocks of other sizes
//	committed  waiting, granted  none     —
//
//	event     lock    next    effects
//	locked    none    locked  answer with slots
//	missed    none    same    answer without slots
//	repeated  locked  same    answer again
//	unlocked  locked  none    —
//
//	event     flush    next     effects
//	flushed   none     erasing  erase
//	repeated  erasing  same     replace the requester
//	erased    erasing  none     answer
//
//	event    pins          next    effects
//	pinned   none, pinned  pinned  set the timer
//	expired  pinned        none    —
//
//	event     demotion          next     effects
//	selected  idle              copying  copy
//	timedOut  copying           stalled  —
//	copied    copying, stalled  idle     —
//	failed    copying, stalled  paused   set the timer
//	retried   paused            idle     —
//
// A reservation is queued if its blocks need a slab that still has blocks of another size; emptying
// such a slab is called reassigning it (core/kv). The reservation is served as soon as no slab is
// being reassigned to its size. If a reservation times out while a demotion is copying, the
// demotion becomes stalled.
//
// The demotion is off if there is no tier below.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - answered: a reservation, a lock and a flush are answered once, either at once or when they
//     stop waiting; a repeated request is answered again, or replaces the requester that is
//     answered
//   - writer: a slot is written by one request at a time, and read by none while it is written
//   - reader: a locked or exported slot keeps its block until the last reader is done
//   - waits: a reservation waits only while a slab is being reassigned to its size
//   - bounded: at most 64 reservations wait
//   - one copy: at most one demotion is in flight, of at most 128 blocks of one size
//   - paused: no demotion starts in states paused and off
//   - lower: the tier below counts as available in states idle and copying only
//   - pinned: the pin count of a block is the number of replicas that list it
//   - released: when all requests have ended, all slots are free or resident
//   - ignored: an ignored event changes nothing
package tier
