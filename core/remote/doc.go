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
//	object  state      trigger    next       effects
//	lookup  none       asked      asked      ask the router
//	lookup  none       tooMany    none       answer without holders
//	lookup  asked      asked      asked      ask the router
//	lookup  asked      found      none       answer
//	lookup  asked      expired    none       -
//	fetch   none       malformed  none       refuse: invalid
//	fetch   none       full       none       refuse: queue full
//	fetch   none       queued     waiting    keep
//	fetch   waiting    started    leased     lease
//	fetch   waiting    late       none       refuse: deadline; forget
//	fetch   waiting    repeated   waiting    replace the requester
//	fetch   waiting    released   none       forget
//	fetch   waiting    stopped    none       refuse: not ready; forget
//	fetch   leased     repeated   leased     replace the requester
//	fetch   leased     released   abandoned  release
//	fetch   leased     sent       none       answer; forget
//	fetch   leased     refused    none       relay the refusal; forget
//	fetch   leased     failed     none       refuse: internal; forget
//	fetch   leased     stopped    none       release; refuse: not ready; forget
//	fetch   abandoned  repeated   leased     replace the requester
//	fetch   abandoned  released   abandoned  release
//	fetch   abandoned  sent       none       forget
//	fetch   abandoned  refused    none       forget
//	fetch   abandoned  failed     none       forget
//	fetch   abandoned  stopped    none       release; forget
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
