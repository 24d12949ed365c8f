// Package loadsource chooses the source that weights are loaded from, by measured speed.
//
// Speeds keeps a running estimate of the bytes per second of each kind of source. A kind that was not
// measured yet has an assumed speed. Order puts the sources that have the weights in order, the fastest
// first, and says why; equally fast ones stay in the order of the caller.
//
// Floor is the least time of a load: its bytes over the slower of source and link. It is known only if
// both were measured.
//
// Suspects are sources that are not chosen: the weights that they delivered failed the check of
// core/verify, and those of another source passed it.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - all: Order returns each candidate once
//   - fastest first: no source comes before one with a higher speed
//   - bounded: an estimate is between the slowest and the fastest of its samples
//   - robust: a sample without bytes or without time changes nothing
//
// Those of suspects, in TestSuspects and TestSuspectsAreBounded: a suspicion is over when the source has
// another version, and there are at most 256.
package loadsource
