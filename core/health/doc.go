// Package health judges how a GPU is: whether it may go on working or has to be quarantined, and why.
//
// It is told what was observed, and compares that with the observation before: a counter of errors says little, its growth
// says that something has just gone wrong. What the driver reports as an XID is judged by NVIDIA's own catalogue.
//
// Invariants:
//
//   - explained: a fault has a cause and a text that names what was seen
//   - once: what was there at the first observation, or was judged before, is no new fault; a device that is lost is one at any time
//   - application faults (a bad address in a kernel, say) never condemn a device
package health
