// Package lora decides which adapters are on a device, where in its memory, and which requests enter a batch with them.
//
// A Layout says where an adapter's matrices are in an address space of its own; Pages gives it pages of 2 MiB, in any order, and
// a Table finds each matrix in them. A Pool says which adapters are on the device, in host memory or on disk alone: it
// answers what it can at once, and tells its caller by Actions what is to be carried out. An Admission takes waiting requests into
// a batch: those whose adapter is there first, as the Policy says, but nobody waits for ever.
//
// Nothing here reads a clock: the caller says what time it is.
//
// Invariants, checked by the property tests:
//
//   - exclusive: a page belongs to one adapter, or is free
//   - conservation: free pages and those of adapters are all pages
//   - in place: a request that is Ready has its adapter on the device, with all its pages, until it unpins
//   - kept: an adapter with a request is neither evicted nor forgotten
//   - answered: a request that was told to wait is told Ready or Lost, once
//   - nothing left: when no request is there and nothing is under way, no adapter is in use
package lora
