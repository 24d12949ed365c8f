// Package hbm is the account of who holds which page of a device's memory.
//
// Weights, KV blocks and adapters take leases from one pool of pages of 2 MiB. A lease grows and shrinks while it is used: KV takes
// what is free, and gives it up when a model needs it. Who gives, and who gets, is decided here too.
//
// Invariants, checked by the property test:
//
//   - exclusive: a page is in one lease, or free
//   - conservation: free and leased pages are all pages
//   - whole: a lease is granted with all its pages, or not at all; so is its growth
//   - least: no replica is asked to give up its share of what is promised for KV blocks
//   - reserve: weights leave the share of memory that is kept for KV blocks (Budget)
//   - back: what a replica gave up comes back when the others leave
//   - in turn: nobody gives while one of a lower priority could
package hbm
