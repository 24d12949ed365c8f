// Package utilization measures how much of a device its steps use, over a sliding window of Length.
//
//	utilization    = time share × roofline share
//	time share     = time in steps / observed time
//	roofline share = least time / time in steps
//	least time     = the sum over steps of max(FLOPs / peak FLOPs, bytes / peak bandwidth)
//
// The least time of a step is what the roofline model allows (Williams, Waterman and Patterson, "Roofline: An
// Insightful Visual Performance Model for Multicore Architectures", Communications of the ACM 52(4), 2009). It is
// taken step by step, because a decode is bound by bandwidth and a prefill by arithmetic: the larger of the two
// totals would be less than the sum of the larger ones. A step counts with at most the time that it took.
//
// An engine counts the FLOPs and bytes of a step; see engine.WorkCounter. The time of a step is what its replica
// waited for it, and includes messages and sampling.
//
// # Peaks
//
// The peaks of a software device are measured when its node starts (cuda/peaks). Those of a known GPU are facts of its
// datasheet (FactsOf). Of another device they are unknown.
//
// # Unknown is not zero
//
// Nothing is known of a device that was not observed. The roofline share and the utilization are unknown without
// peaks, and if the work of a step in the window was not counted. Without steps, the utilization is 0 and the roofline
// share is unknown.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - counted: the figures count what was reported within the window, and nothing twice
//   - bounded: each share is between 0 and 1, and the utilization is at most the time share
//   - product: the utilization is the time share times the roofline share
//   - unknown: without peaks, or with a step that was not counted, there is no utilization
//   - forgotten: a window without steps for Length + a slot is empty
package utilization
