// Package restart decides whether a failed actor is restarted, after which delay, or stopped.
//
// A History records the failures of one actor, from its spawn to its stop, across its restarts:
//
//	failures within 30 s  decision
//	1                     restart at once
//	2                     restart after 50 ms
//	3                     restart after 200 ms
//	4                     stop
//
// A permanent failure stops the actor whatever its history: a restart would fail again.
//
// Invariants, checked by the property test:
//
//   - bounded: of any four failures within Window, one stops the actor
//   - forgotten: a failure older than Window does not count
//   - growing: of two failures, the later one within Window is not followed by the shorter delay
//   - permanent: a permanent failure stops the actor
//   - fresh: a stopped actor starts without failures
package restart
