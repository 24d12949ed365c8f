// Package dst provides deterministic simulation testing: it runs the actors of several nodes one at
// a time and in virtual time, in an order that a seed determines. The same seed gives the same run,
// so a failure can be reproduced.
//
// A World replaces everything that decides when something happens: time and timers, jobs, and the
// order in which mailboxes are served (supervise.Runtime and supervise.MailboxSource). The actors
// and their props are those of the product.
package dst
