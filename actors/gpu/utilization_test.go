package gpu_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/gpu"
	"troupe/core/utilization"
	"troupe/messages"
	"troupe/testkit"
)

// TestUtilization checks the utilization of a device by the reports of two replicas, and that it survives a crash of
// the actor.
func TestUtilization(t *testing.T) {
	for name, peaks := range map[string]utilization.Peaks{
		"known peaks": {FLOPs: 1e12, Bytes: 1e11, Source: "test"}, "no peaks": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := &testkit.Crash{On: "*messages.DeviceFailed", Times: 1}
				a, b := share(t, func(c *gpu.Config) { c.Peaks = peaks }, crash.Middleware)
				report := func(s *sharer, i int, flops float64) {
					ran := time.Duration(i) * time.Second / 4
					s.Send(s.gpu, &messages.KVReport{
						Lease: s.name, Started: 1, StepTime: durationpb.New(ran), CountedTime: durationpb.New(ran),
						LeastTime: durationpb.New(ran / 2), Flops: float64(i) * flops, Bytes: float64(i),
					})
				}
				for i := range 30 {
					report(a, i, 1e9)
					report(b, i, 2e9)
					time.Sleep(time.Second)
				}
				a.Send(a.gpu, &messages.DeviceFailed{})
				a.Send(a.gpu, &messages.GetGpu{})
				u := last[status](t, a.Peer).GetUtilization()
				if crash.Crashed() == 0 {
					t.Error("no crash")
				}
				if got := u.GetTimeShare(); got < 0.45 || got > 0.5 {
					t.Errorf("time share %v, want almost 0.5", got)
				}
				if got := u.GetFlopsPerSecond(); got < 2.7e9 || got > 3e9 {
					t.Errorf("%v FLOP/s, want almost 3e9", got)
				}
				known := peaks.Known()
				if (u.Utilization != nil) != known || (u.RooflineShare != nil) != known ||
					u.GetPeakSource() != peaks.Source || (u.PeakBytesPerSecond != nil) != known {
					t.Errorf("with %+v: %v", peaks, u)
				}
				if known && (u.GetRooflineShare() != 0.5 || u.GetUtilization() != u.GetTimeShare()/2) {
					t.Errorf("%v, want a roofline share of 0.5", u)
				}
			})
		})
	}
}
