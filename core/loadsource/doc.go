// Package loadsource chooses the source that weights are loaded from, by measured speed.
//
// Speeds keeps a running estimate of the bytes per second of each kind of source. A kind that was not
// measured yet has an assumed speed. Order puts the sources that have the weights in order, the fastest
// first, and says why; equally fast ones stay in the order of the caller.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - all: Order returns each candidate once
//   - fastest first: no source comes before one with a higher speed
//   - bounded: an estimate is between the slowest and the fastest of its samples
//   - robust: a sample without bytes or without time changes nothing
package loadsource
