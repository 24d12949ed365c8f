// Package tier decides how a KV tier below HBM serves those who copy blocks to and from its slots:
// who may write or read a slot, who waits, what is demoted when, and which pins hold. core/kv's
// Tier selects the slots and the blocks that leave; core/export the blocks that other nodes get.
//
// A Machine is fed one event at a time and returns Effects, which its caller carries out in order.
// It has no use for the time: its clock is the number of steps, and timers are effects whose end is
// an event.
//
// # Transitions
//
// A request is identified by its id, and pins by their replica. A request in state none is not
// known. Any other trigger is ignored.
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
// A reservation is queued if its blocks need a slab that blocks of another size must leave first;
// core/kv calls that reassigning. It is served as soon as no slab is being reassigned to its size.
// A timeout of a reservation while a demotion is copying makes the demotion stalled.
//
// The demotion is off if there is no tier below.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - answered: a reservation, a lock and a flush is answered once, at once or when it stops waiting;
//     a repeated one is answered again, or changes who is answered
//   - writer: a slot is written by one request at a time, and read by none meanwhile
//   - reader: a locked or exported slot keeps its block until the last reader is done
//   - waits: a reservation waits only while a slab is being reassigned to its size
//   - bounded: at most 64 reservations wait
//   - one copy: at most one demotion is in flight, of at most 128 blocks of one size
//   - paused: no demotion starts in states paused and off
//   - lower: the tier below counts as available in states idle and copying only
//   - pinned: a block is pinned as often as there are replicas that list it
//   - released: when all requests have ended, all slots are free or resident
//   - ignored: an ignored event changes nothing
package tier
