// Package hbm keeps the ledger of a device's memory pages and decides which replica yields or gets
// pages.
//
// Weights, KV blocks and adapters lease pages of 2 MiB from one pool. A lease can be resized while
// it is in use: KV memory takes free pages, and yields them when a model needs them.
//
// Invariants, checked by the property tests:
//
//   - exclusive: a page is in one lease, or free
//   - conservation: free and leased pages together are all pages
//   - atomic: a lease is granted and grown completely or not at all
//   - minimum: no replica has to yield its guaranteed share of KV memory
//   - reserve: weights leave the share of memory that is reserved for KV blocks (Budget)
//   - return: a replica gets its pages back when the other replicas leave
//   - order: no replica yields while one of a lower priority can
package hbm
