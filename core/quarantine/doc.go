// Package quarantine decides when a device is excluded from use because it failed, when it is tested,
// and when its quarantine ends. core/health judges the observations.
//
// A Machine takes events with the current time and returns Effects, which the caller carries out in
// order. It survives restarts of the actor that uses it: Start drops only the self-test in flight
// and the requests that wait for it.
//
// # Transitions
//
// The first row that fits an event applies; an event without a row is ignored. A device is in use
// while a model uses its memory. "All" are the requests that wait for a self-test.
//
//	event     state              guard                         next         effects
//	fault     healthy            device lost                   lost         begin
//	          healthy                                          quarantined  begin
//	          quarantined        device lost                   lost         begin a new one
//	          quarantined, lost                                same         keep the first cause
//	release   healthy                                          same         answer
//	          quarantined, lost  untested                      healthy      end; answer all
//	          quarantined                                      same         wait for a self-test
//	          lost               in use                        same         wait until it is empty
//	          lost                                             same         wait for a self-test
//	passed    healthy                                          same         —
//	          quarantined, lost  begun before this quarantine  same         refuse all
//	          quarantined, lost                                healthy      end; answer all
//	failed    healthy                                          same         —
//	          quarantined, lost  begun before this quarantine  same         refuse all
//	          quarantined, lost                                same         note the result; refuse all
//	observed  lost               in use                        same         unload all
//	          quarantined        hung, test due                same         self-test
//	          lost               test due                      same         self-test
//	          any                                              same         —
//
// The self-test has its own state, since it continues when a quarantine is released without it, or
// when another quarantine begins:
//
//	event   self-test      next
//	wanted  idle, running  running
//	ended   running        idle
//
// A replica whose steps hang, or give wrong answers, makes its device suspicious. The device stays
// in use until a self-test fails, or hangs too. If it was quarantined because of that, it is tested
// every 30 s, and returns when it passes:
//
//	event       suspicion           guard                next       effects
//	suspicious  trusted             quarantined          same       —
//	            trusted                                  suspected  self-test
//	            suspected                                same       —
//	passed      suspected                                trusted    note it
//	failed      suspected                                trusted    quarantine
//	observed    suspected           quarantined          trusted    —
//	            suspected           no self-test runs    same       self-test
//	            suspected           the self-test hangs  trusted    quarantine
//	passed      trusted, suspected                       same       —
//	failed      trusted, suspected                       same       —
//	observed    trusted, suspected                       same       —
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - explained: a device that is not healthy has a quarantine with a cause, a text and a time; a
//     healthy one has none
//   - announced: every start and end of a quarantine is reported, and nothing else is reported as
//     one
//   - first cause: the cause changes only when the device is found to be lost
//   - newer: a self-test ends only the quarantine in which it started
//   - answered: every request is answered once, unless it is repeated or the actor restarts first
//   - waiting: a request waits only for a running self-test, or until a lost device is empty
//   - one test: at most one self-test runs
//   - empty: a self-test of a lost device starts only if the device is empty
//   - patient: a self-test starts without a request only on a lost device that responds, and at
//     least 30 s after the last self-test and after the start of the quarantine; the same holds for a
//     device that hung; and one starts at once on a healthy device that becomes suspicious
//   - suspected: a quarantine because of a suspicion begins only after a self-test failed, or ran for
//     20 s
//   - observed: one observation is requested at a time, and each is followed by another request
//   - emptied: the models on a lost device are unloaded when the device is observed
//   - survives: a restart of the actor changes neither the quarantine nor the observation
package quarantine
