package gpu

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/utilization"
	"troupe/messages"
)

// countersOf returns the steps of a replica in its report.
func countersOf(msg *messages.KVReport) utilization.Counters {
	return utilization.Counters{
		Steps: msg.GetStepTime().AsDuration(), Counted: msg.GetCountedTime().AsDuration(),
		Least: msg.GetLeastTime().AsDuration(), Work: utilization.Work{FLOPs: msg.GetFlops(), Bytes: msg.GetBytes()},
	}
}

// utilizationOf converts the figures of a device; nil: nothing is known.
func utilizationOf(f utilization.Figures, peaks utilization.Peaks) *messages.GpuUtilization {
	share, known := f.TimeShare()
	if !known {
		return nil
	}
	u := &messages.GpuUtilization{Observed: durationpb.New(f.Observed), TimeShare: share}
	if reached, known := f.RooflineShare(peaks); known {
		u.RooflineShare = &reached
	}
	if used, known := f.Utilization(peaks); known {
		u.Utilization = &used
	}
	if rates, known := f.Rates(); known {
		u.FlopsPerSecond, u.BytesPerSecond = &rates.FLOPs, &rates.Bytes
	}
	if peaks.Known() {
		u.PeakFlopsPerSecond, u.PeakBytesPerSecond, u.PeakSource = &peaks.FLOPs, &peaks.Bytes, peaks.Source
	}
	return u
}
