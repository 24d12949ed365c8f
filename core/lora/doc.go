// Package lora decides which adapters are on a device, where in its memory they are, and which
// requests enter a batch with them.
//
// A Layout maps an adapter's matrices into an address space of its own. Pages allocates pages of 2
// MiB for it, in any order, and a Table locates each matrix in them. A Pool decides which adapters
// are on the device, in host memory or only on disk. It answers requests at once and returns
// Actions for its caller to carry out. An Admission admits waiting requests to a batch, those with
// a resident adapter first, as the Policy says. No request starves.
//
// The package never reads a clock: the caller passes the time.
//
// Invariants, checked by the property tests:
//
//   - exclusive: a page belongs to one adapter or is free
//   - conservation: the free pages and those of adapters are all pages
//   - in place: a request that is Ready has its adapter on the device, with all pages, until it
//     unpins
//   - kept: an adapter with a request is neither evicted nor forgotten
//   - answered: a request that waits gets Ready or Lost, exactly once
//   - nothing left: with no request and no action in flight, no adapter is in use
package lora
