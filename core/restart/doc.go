// Package restart decides whether a failed actor is restarted or stopped, and how long a restart is
// delayed.
//
// A History records the failures of one actor, from its spawn to its stop, across its restarts:
//
//	failures within 30 s  decision
//	1                     restart at once
//	2                     restart after 50 ms
//	3                     restart after 200 ms
//	4                     stop
//
// A permanent failure stops the actor regardless of its history, because it would fail again after
// a restart.
//
// Invariants, checked by the property test:
//
//   - bounded: of any four failures within Window, one stops the actor
//   - forgotten: a failure older than Window does not count
//   - growing: of two failures within Window, the later one has no shorter delay
//   - permanent: a permanent failure stops the actor
//   - fresh: a stopped actor starts without failures
package restart
