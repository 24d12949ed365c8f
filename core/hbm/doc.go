// Package hbm is the account of who holds which page of a device's memory.
//
// Weights, KV blocks and adapters take leases from one pool of pages of 2 MiB.
//
// Invariants, checked by the property test:
//
//   - exclusive: a page is in one lease, or free
//   - conservation: free and leased pages are all pages
//   - whole: a lease is granted with all its pages, or not at all
package hbm
