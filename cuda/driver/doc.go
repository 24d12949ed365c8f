// Package driver drives NVIDIA GPUs through libcuda.so.1, which it opens on first use. Building
// needs no CUDA toolkit, and running without a GPU needs no library.
//
// Invariants:
//   - Every crossing into the library starts by setting its context, because goroutines move
//     between threads, and a thread keeps the context of its previous user.
//   - Work is queued as commands and crosses as a list; a crossing stops at the first command that
//     fails.
//   - The library gets addresses only of its own memory or of heap objects that are kept alive
//     until the call returns, never of a stack.
//   - A wait polls for some microseconds and then blocks in the library, which occupies a thread
//     while the device works.
//   - Copies are checked against allocations, because a GPU checks only pages.
//   - A lost device no longer accepts work: every call returns its fault, which is
//     cuda.ErrDeviceLost.
package driver
