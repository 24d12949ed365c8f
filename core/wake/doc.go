// Package wake decides which requests wait at a router for a model without a serving replica, in
// which order they are served, and when the model's deployment learns that they wait.
//
// A Queue takes events with the current time and returns Effects, which the caller carries out in
// order. The caller decides what becomes of a request once a replica serves: it goes through Waiting
// in order, and reports each request that it has answered with Answered.
//
// # Requests
//
// The first row that fits an event applies; an event without a row is ignored.
//
//	event      state    guard                next     effects
//	asked      absent   its deadline passed  same     refuse: deadline
//	           absent   no place             same     refuse: queue full
//	           absent                        waiting  confirm the place
//	           waiting                       same     confirm the place
//	answered   waiting                       absent   —
//	withdrawn  waiting                       absent   —
//	tick       waiting  its deadline passed  absent   refuse: deadline
//	           waiting  not asked for 3 s    absent   —
//	           waiting                       same     —
//
// A request that waits is asked for again by its session every second. One that is no longer
// asked for has no session, because its client has left or its node's gateway has crashed.
//
// # Models
//
// A model with waiting requests is reported to its deployment with a Wake at once and then each
// second, with their number, and a last time with 0 as soon as no request waits any longer.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - once: a request waits once, under its ID
//   - order: requests of a model wait by class, the highest first, then by arrival
//   - bounded: at most Limit requests wait for a model, and the prompts of all requests have at most
//     64 MiB, but a prompt of any size may wait alone
//   - deadline: no request waits after a tick at or after its deadline
//   - alive: no request waits that was not asked for within 3 s before a tick
//   - answered: each request that stops waiting was answered, withdrawn, refused or not asked for
//   - woken: after each tick, each model with waiting requests was reported within the last second
//     with their number; after each event, no other model was reported last with a number above 0
//   - deduplicated: a model is reported at most once a second, but for a report with 0 and the first
//     request after that
package wake
