// Package health decides whether a GPU is healthy or must be quarantined, and why.
//
// It compares each observation with the previous one, since the growth of an error counter shows a
// new fault and its value does not. Events that the driver reports as XIDs are classified by
// NVIDIA's catalog.
//
// Invariants:
//
//   - explained: a fault has a cause and a text that names the observation
//   - once: a condition of the first observation, or one that was judged before, is not a new
//     fault; a lost device always is one
//   - application faults, such as a bad address in a kernel, never quarantine a device
package health
