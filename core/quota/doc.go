// Package quota decides which requests of which clients a gateway takes.
//
// A Ledger counts what is in flight, here and at the other gateways, and what was used in the last minute. Each gateway
// tells the others its own counts every second (Usage, Peer). Between two reports a gateway knows only its own requests,
// so that clients may exceed a limit by what they send in that second through several gateways; what was too much is
// paid back, since the counters of requests and tokens a minute may be negative.
//
// Limits by minute are buckets that hold a minute's worth and fill evenly. Tokens are counted when a request is taken,
// as prompt and max_tokens of every choice; what was not used is given back when the request ends.
//
// A client, with limits or not, may hold at most half of the places that others leave free. So one client takes half of
// all places, a second one a quarter, and there are places left for more.
//
// Nothing here reads a clock: the caller says what time it is.
//
// Invariants, checked by the property test:
//
//   - places: a ledger never has more than its places in flight, nor a client more than half of what others leave
//   - limits: with one gateway no limit is exceeded at any time
//   - excess: with several, no more than what was let in since the last reports
//   - conservation: when nothing is in flight, no request or token is counted as such
package quota
