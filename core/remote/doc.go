// Package remote decides how a node's remote tier looks up blocks that other nodes hold, and when
// it fetches them. The RemoteFetcher of core/kv measures the paths to the holders and decides which
// fetches fit the capacity.
//
// A Machine takes one event at a time, with the current time, and returns Effects, which the caller
// carries out in order. It never sees a hash, a ticket or the content of a block: the caller keeps
// the command of a fetch from Keep to Forget.
//
// # Transitions
//
// Lookups and fetches are identified by their request id. A lookup or fetch in state none is
// unknown. A trigger without a row is ignored.
//
//	event    lookup       next   effects
//	asked    none, asked  asked  ask the router
//	tooMany  none         same   answer without holders
//	found    asked        none   answer
//	expired  asked        none   —
//
//	event      fetch            next       effects
//	malformed  none             same       refuse: invalid
//	full       none             same       refuse: queue full
//	queued     none             waiting    keep
//	started    waiting          leased     lease
//	late       waiting          none       refuse: deadline; forget
//	repeated   waiting, leased  same       replace the requester
//	           abandoned        leased     replace the requester
//	released   waiting          none       forget
//	           leased           abandoned  release
//	           abandoned        same       release
//	stopped    waiting          none       refuse: not ready; forget
//	           leased           none       release; refuse: not ready; forget
//	           abandoned        none       release; forget
//	sent       leased           none       answer; forget
//	           abandoned        none       forget
//	refused    leased           none       relay the refusal; forget
//	           abandoned        none       forget
//	failed     leased           none       refuse: internal; forget
//	           abandoned        none       forget
//
// A fetch starts at once if it fits the capacity, so most fetches spend no time in waiting.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - answered: a lookup is answered at most once, and a fetch once unless it is released; a
//     repeated request replaces the requester that is answered
//   - bounded: at most 256 lookups are open and at most 64 fetches wait; the bytes in flight stay
//     within the capacity, unless a single fetch exceeds it
//   - ordered: fetches start in the order of their requests
//   - deadline: a lease ends with the deadline of its fetch; a fetch that waits is refused by the first
//     sweep after its deadline
//   - kept: the command of a fetch is kept exactly while the fetch is not in state none
//   - leased: a holder is asked at most once for each fetch, and released only if it was asked
//   - stopped: after Stop no lookup or fetch is left
//   - ignored: an ignored event changes nothing
package remote
