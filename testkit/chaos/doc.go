// Package chaos lets faults happen to a cluster of real nodes under load, by a schedule that a seed decides, and checks that nobody could
// tell: every stream is exactly what it would have been, the cluster becomes whole again after each fault, and nothing is left behind.
//
// The faults and their order follow from the seed alone; when they strike does not, since nodes and clients run on real clocks. A seed
// that has failed once may pass the next time, and is still the best place to look.
//
// Invariants:
//   - One fault at a time: each is mended, and the cluster whole, before the next. So a majority of the nodes is always there.
//   - An error that a client must live with is a connection refused or cut because its gateway was killed; it then asks another one.
package chaos
