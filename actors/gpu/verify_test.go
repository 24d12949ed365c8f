package gpu_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/gpu"
	"troupe/core/verify"
	"troupe/engine/residency"
	"troupe/messages"
)

// TestUnverifiedWeightsAreRefused checks that a load whose weights fail their check on all sources is refused
// with each of them, that the replica of another model serves on, and that the device is tested, and stays in
// use if it passes.
func TestUnverifiedWeightsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tests := &fakeModels{}, 0
		p, pid := playWith(t, s, func(c *gpu.Config) {
			c.SelfTest = func(context.Context) error { tests++; return nil }
		})
		p.Send(pid, load("1", "a-0", "a"))
		if last[loadResult](t, p).GetLoaded() == nil || tests != 0 {
			t.Fatal(last[loadResult](t, p))
		}
		recorded := verify.Record{Tokens: []uint32{7, 8}, By: "node/gpu-0, from disk"}
		unverified := &residency.Unverified{Path: "b", Device: "node/gpu-0", Rejections: []verify.Rejection{
			{Source: verify.Source{Name: "host cache", Doubtful: true}, Got: []uint32{7, 9}, Recorded: recorded},
			{Source: verify.Source{Name: "disk"}, Got: []uint32{1}, Recorded: recorded},
		}}
		s.fail = unverified
		p.Send(pid, load("2", "b-0", "b"))
		r := last[loadResult](t, p).GetRefused()
		if r.GetReason() != messages.Reason_REASON_LOAD_FAILED || r.GetDetail() != unverified.Error() {
			t.Errorf("%v", r)
		}
		u := r.GetUnverified()
		if u.GetModel() != "b" || u.GetDevice() != "node/gpu-0" || u.GetRemedy() != unverified.Remedy() ||
			len(u.GetSources()) != 2 || u.GetSources()[0].GetSource() != "host cache" ||
			!slices.Equal(u.GetSources()[0].GetTokens(), []uint32{7, 9}) ||
			!slices.Equal(u.GetSources()[1].GetRecorded(), []uint32{7, 8}) {
			t.Errorf("%v", u)
		}
		if tests != 1 {
			t.Errorf("%d self-tests", tests)
		}
		p.Send(pid, &messages.GetGpu{})
		g := last[status](t, p)
		if g.GetState() != messages.GpuState_GPU_STATE_SERVING || len(g.GetWeights()) != 1 {
			t.Errorf("%v", g)
		}
		s.fail = errors.New("no such file")
		p.Send(pid, load("3", "b-0", "b"))
		if r := last[loadResult](t, p).GetRefused(); r.GetUnverified() != nil || tests != 1 {
			t.Errorf("another failure: %v, %d self-tests", r, tests)
		}
	})
}

// TestVerifyIsReportedApart checks that the time of the canary is not counted as that of the load, that the
// answer has what the canary must give.
func TestVerifyIsReportedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{delay: time.Second, from: residency.Origin{Source: "disk", Verify: 300 * time.Millisecond},
			canary: verify.Record{Prompt: []uint32{1}, Tokens: []uint32{7, 8}, By: "node/gpu-0, from disk"}}
		p, pid := play(t, s)
		p.Send(pid, load("1", "m-0", "m"))
		time.Sleep(2 * time.Second)
		l := last[loadResult](t, p).GetLoaded()
		m := l.GetMetrics()
		if m.GetLoad().AsDuration() != 700*time.Millisecond || m.GetVerify().AsDuration() != 300*time.Millisecond {
			t.Errorf("%v", m)
		}
		if !slices.Equal(l.GetCanary().GetTokens(), []uint32{7, 8}) ||
			!slices.Equal(l.GetCanary().GetPrompt(), []uint32{1}) {
			t.Errorf("%v", l.GetCanary())
		}
	})
}
