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
//	object       state            trigger    next     effects
//	reservation  none             refused    none     refuse: the blocks are too large
//	reservation  none             granted    granted  answer with slots
//	reservation  none             answered   none     answer without slots
//	reservation  none             queued     waiting  set the timer
//	reservation  waiting          repeated   waiting  replace the requester
//	reservation  waiting          granted    granted  answer with slots
//	reservation  waiting          answered   none     answer without slots
//	reservation  waiting          timedOut   waiting  drop blocks of other sizes
//	reservation  waiting          committed  none     -
//	reservation  granted          repeated   granted  answer again
//	reservation  granted          committed  none     -
//	lock         none             locked     locked   answer with slots
//	lock         none             missed     none     answer without slots
//	lock         locked           repeated   locked   answer again
//	lock         locked           unlocked   none     -
//	flush        none             flushed    erasing  erase
//	flush        erasing          repeated   erasing  replace the requester
//	flush        erasing          erased     none     answer
//	pins         none,pinned      pinned     pinned   set the timer
//	pins         pinned           expired    none     -
//	demotion     idle             selected   copying  copy
//	demotion     copying          timedOut   stalled  -
//	demotion     copying,stalled  copied     idle     -
//	demotion     copying,stalled  failed     paused   set the timer
//	demotion     paused           retried    idle     -
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
