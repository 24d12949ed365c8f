// Package supervise is what all actors share: their recipes, the one restart policy,
// a group of fixed children, jobs, which are slow work off the mailbox, and the
// goroutines that they run on.
//
// The policy: a child that panics is restarted, at once the first time, then with
// a growing delay; the fourth failure within 30 s stops it, or the first one if its
// device is lost, and its parent learns that from actor.Terminated. A parent needs
// no Watch for that. What was told to stop is not restarted any more, however late
// the restart comes.
package supervise
