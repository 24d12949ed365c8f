// Package turns decides which of the replicas that share a device runs next on it.
//
// A replica asks for a turn when it has work (Ask), runs steps while it has the turn, and ends it
// (End). While no other replica waits, its turn is open: it runs step after step until it is
// recalled, so a replica that has the device to itself sends no message for its steps. While others
// wait, a turn is one step.
//
// # Order
//
// Of the replicas that wait, the next turn goes to
//
//  1. one that has waited for MaxWait, the longest first;
//  2. else one of the highest class, so that class Batch gets what the others leave;
//  3. in this class to one that would miss its deadline if another went first, the earliest deadline
//     first. It may be at most Lead further ahead of its fair share than the others, so that a tight
//     deadline does not pay for more than a share;
//  4. else to one that has a prompt to compute, within the same Lead, the one furthest behind first:
//     a request then waits for the step in progress only, and the next tokens of the others for one
//     step more;
//  5. else to the one furthest behind its fair share.
//
// Shares are counted in virtual time, as in start-time fair queueing (Goyal, Vin, Cheng: "Start-time
// Fair Queueing", SIGCOMM 1996): a replica that used the device for a time d in a class advances
// there by d / weight. Time in which no other replica waited does not count. A replica that asks
// after a pause starts no further behind than the last turn of the class, so that it does not save
// up what it did not use.
//
// # Transitions
//
// These are the states of one replica. Present are all but absent; with a turn are holding, open,
// recalled and overdue; asked are these and waiting. The first row that fits an event applies; an
// event without a row is ignored. After each event the next turn is granted, if none is
// in progress: the replica enters open if no other one waits, and holding otherwise.
//
//	event   state                        guard            next      effects
//	expect  absent                                        expected  set the timer
//	join    absent                                        idle      —
//	        present                                       idle      forget its turn
//	ask     idle                                          waiting   recall an open turn
//	        asked                        repeated         same      ignore
//	end     with a turn                  of another turn  same      ignore
//	        with a turn                  has more work    waiting   count the time used; recall an open turn
//	        with a turn                                   idle      count the time used
//	timer   holding, recalled, expected  of another turn  same      ignore
//	        holding, recalled                             overdue   report it
//	        expected                                      absent    report it
//	leave   present                                       absent    —
//
// After a restart of its actor, a machine does not know who holds a turn. It expects the replicas that
// have memory on the device, and each of them joins when it runs no step.
//
// An overdue turn counts as ended for the others: the step may be hung, and the device, too, but
// only their steps can show that.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - exclusive: at most one replica holds a turn that is not overdue
//   - busy: while a replica waits, a turn is in progress or a replica is expected
//   - expected: no turn is granted while a replica is expected
//   - recalled: while a replica waits, no turn is open
//   - silent: a replica that no other one waits for gets one grant, however many steps it runs
//   - bounded: with n replicas and turns of at most L, none waits longer than MaxWait + n × L
//   - classes: before MaxWait, no turn goes to a replica while one of a higher class waits
//   - fair: between two replicas that both wait or run in one class, the difference of the time used
//     per weight stays below Lead + 2 L / the smaller weight, if none waits for MaxWait
//   - punctual: of two replicas of a class and within Lead, the one that would miss its deadline
//     goes first
//   - prompts: of two replicas of a class and within Lead that miss no deadline, one with a prompt
//     goes before one without
//   - turns: each grant has a number of its own, and only its end or its replica's leaving ends it
//   - deterministic: the same events give the same effects
package turns
