// Package quota decides which requests of which clients a gateway admits.
//
// A Ledger counts the requests in flight, at this gateway and all others, and the usage of the last
// minute. Each gateway reports its own counts to the others every second (Usage, ApplyReport).
// Between two reports a gateway knows only its own requests. A client may therefore exceed a limit
// by what it sends in that second through several gateways. The excess is repaid, since the
// counters per minute may become negative.
//
// Limits per minute are token buckets that hold one minute's worth and fill evenly. Tokens are
// counted when a request is admitted: prompt tokens plus max_tokens for every choice. Unused tokens
// are returned when the request ends.
//
// Every client, with or without limits, may hold at most half of the places that others leave free.
// One client thus takes half of all places and a second one a quarter, and places remain for more.
//
// The package never reads a clock: the caller passes the time.
//
// Invariants, checked by the property test:
//
//   - places: a ledger never has more requests in flight than places, and a client never more than
//     half of what others leave
//   - limits: with one gateway, no limit is ever exceeded
//   - excess: with several gateways, a limit is exceeded at most by what was admitted since the
//     last reports
//   - conservation: with nothing in flight, no request or token is counted as in flight
package quota
