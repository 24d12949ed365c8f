// Package supervise is what all actors share: the one restart policy, a group of
// fixed children, and jobs, which are slow work off the mailbox.
//
// The policy: a child that panics is restarted, at once the first time, then with
// a growing delay; the fourth failure within 30 s stops it, or the first one if its
// device is lost, and its parent learns
// that from actor.Terminated. A parent needs no Watch for that.
package supervise
