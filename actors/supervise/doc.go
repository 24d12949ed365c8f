// Package supervise provides what all actors share: their props, the restart policy, a group of
// fixed children, jobs for slow work outside the mailbox, the goroutines that actors run on, and the
// Runtime by which they reach time, concurrency, randomness, and ids.
//
// The policy (core/restart): a child that panics is restarted, at once the first time and then with
// a growing delay. The fourth failure within 30 s stops it, and so does the first one if its device
// is lost.
// The parent learns of that from actor.Terminated, without a Watch. A stopped actor is never
// restarted, however late the restart arrives.
package supervise
