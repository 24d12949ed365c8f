// Package driver drives NVIDIA GPUs through libcuda.so.1, which it opens when it is first asked: building takes no CUDA toolkit,
// and running without a GPU takes no library.
//
// Invariants:
//   - Every crossing into the library begins by setting its context, because goroutines move between threads and a thread keeps
//     the context of whoever was there before.
//   - Work is queued as commands and crosses as a list; a crossing stops at the first command that fails.
//   - The library gets addresses of its own memory or of heap objects that are kept until the call returns, never of a stack.
//   - Waiting asks for some microseconds and then blocks in the library, which holds a thread for as long as the device works.
//   - Copies are checked against what was allocated, because a GPU checks pages, not allocations.
//   - A device that has failed for good takes nothing any more: everything returns the fault, which is cuda.ErrDeviceLost.
package driver
