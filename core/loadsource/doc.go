// Package loadsource chooses the source that weights are loaded from, by measured time.
//
// Speeds keeps, for each Path, the bytes per second of its last five loads. A path is a kind of source together
// with what its speed depends on: the two devices of a peer copy, the other node, the disk of an image or a
// folder, the device that the host cache is copied to. The speed of a path is the median of these loads (of an
// even number, the faster of the two in the middle), so that a single slow load changes nothing.
//
// The expected time of a load from a source is
//
//	time = bytes / speed of its path
//
// There is no fixed cost: other devices and nodes are asked for their weights before the choice, so asking
// costs the same whichever source is chosen.
//
// # Paths that were not measured
//
// Such a path has the assumed speed of its kind. The assumed speeds give the default order: host cache, another
// device, image on disk, folder, another node, device of another node. Two rules adjust assumed speeds. All
// weights but those of a device that is reached directly pass through host memory, as those of the host cache
// do, so no other path is assumed to be faster than the measured host cache. A device that is reached directly
// does not use that link, and is assumed to be at least twice as fast, so that it is tried once and measured. A
// device that is not reached directly has half the assumed speed.
//
// # Order
//
// Rank puts sources in order by their expected times, the shortest first. Times are compared in steps of
// Resolution, since two loads of the same weights differ by as much. Sources with equal times are in the
// default order of their kinds, then by speed, then in the order of the caller. Suspected sources are left out.
// The reason that Rank returns has the figures of the first four.
//
// Floor is the least time of a load: its bytes over the slower one of link and source, at the best speeds that
// were measured. No speed is configured. The link is that of the device to host memory; its speed is the best
// of a measurement at the start and of all loads through it. Peer copies do not use it. A load is observed before
// its floor is computed, so the floor of a load from one source is known, and at most its time.
//
// Suspects are sources that are not chosen: the weights that they delivered failed the check of
// core/verify, and those of another source passed it.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - all: Rank returns each candidate that is not suspected once, and no other one
//   - fastest first: no measured source comes before one that was measured to be faster by more than Resolution
//   - deterministic: Rank gives the same order and reason for the same loads and candidates
//   - bounded: a speed is between the slowest and the fastest of its last loads, and there are at most 1024
//   - robust: a load without bytes or without time changes nothing
//   - floor: it is positive once its path or its link was measured, and at most the time of any of the last loads
//
// Those of suspects, in TestSuspects and TestSuspectsAreBounded: a suspicion is over when the source has
// another version, and there are at most 256.
package loadsource
