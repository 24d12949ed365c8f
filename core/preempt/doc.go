// Package preempt decides how one replica is preempted: it is fenced, its sequences migrate, finish
// or are saved and requeued, and its memory is freed. It also decides which replicas may be
// preempted.
//
// A Machine handles the preemption of one replica. It takes one event at a time and returns Effects,
// which its caller carries out in order. All commands are idempotent, and a tick repeats the one of
// the current phase. The machine never reads a clock: the caller passes the time.
//
// Nothing in a Machine needs to survive a crash of its owner. The next Machine starts with the
// stored deadline, fences the replica again and goes on from what it finds there. Only the times of
// the phases before the crash are lost.
//
// # Transitions
//
// The first row that fits an event applies; an event without a row is ignored.
//
//	event     phase              guard             next       effects
//	start     created                              fencing    fence
//	fenced    fencing            a target          migrating  migrate
//	          fencing            deadline passed   saving     save
//	          fencing                              finishing  set the timer
//	migrated  migrating          of another round  same       ignore
//	          migrating          a target          same       migrate
//	          migrating          deadline passed   saving     save
//	          migrating                            finishing  set the timer
//	drained   fencing … saving                     freeing    free
//	saved     saving                               freeing    free
//	lost      fencing … saving                     freeing    free
//	tick      fencing            overdue           freeing    free
//	          fencing                              same       fence
//	          migrating          overdue           saving     save
//	          migrating                            same       migrate again
//	          finishing          deadline passed   saving     save
//	          finishing          a target          migrating  migrate
//	          finishing                            same       fence
//	          saving             overdue           freeing    free
//	          saving                               same       save
//	          freeing                              same       free
//	freed     freeing                              ended      -
//	gone      fencing … freeing                    ended      -
//
// A target is a replica that can take the sequences and was not tried in this round. A tick in
// finishing begins a new round, since a target that had no room may have room now. Fencing and
// migrating are overdue 10 s after the deadline, and saving is overdue after 10 s. In finishing, the
// fence is repeated, since a replica that restarted has forgotten it.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - fence first: sequences are migrated or saved only after the replica has reported the fence
//   - deadline: sequences are saved only after the deadline
//   - target: sequences migrate to a target that the caller named, and to none twice in a round
//   - one end: nothing follows ended, and Free is emitted only in freeing
//   - bounded: while ticks arrive, freeing begins at most 30 s after the deadline
//   - times: the times of the phases add up to the time since the start
//   - ignored: an ignored event changes nothing
package preempt
