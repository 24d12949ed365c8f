// Package dst runs actors of several nodes in one thread and in virtual time, by a seed
// (deterministic simulation testing). The same seed gives the same run, so a failure can be
// repeated.
//
// A World replaces what decides when something happens: time and timers, jobs, and the order of
// mailboxes (supervise.Runtime and supervise.MailboxSource). The actors themselves and their props
// are those of the product.
package dst
