// Package chaos injects faults into a cluster of real nodes under load and checks that clients do
// not notice. A seed determines the schedule. Every stream must be exactly as without faults, the
// cluster must recover after each fault, and nothing may be left behind.
//
// The seed determines the faults and their order, but not their exact timing, since nodes and
// clients run on real clocks. A seed that has failed once may pass later, and is still the best
// place to look.
//
// Invariants:
//   - One fault at a time: each is repaired, and the cluster has recovered, before the next. So a
//     majority of the nodes is always available.
//   - The only error that clients see is a connection refused or cut because its gateway was
//     killed; they then use another gateway.
package chaos
