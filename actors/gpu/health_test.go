package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/gpu"
	"troupe/core/health"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// fakeDevice is a device whose health and self-test result are set by the test.
type fakeDevice struct {
	mu           sync.Mutex
	now          health.Observation
	hang         chan struct{} // blocks Health until it is closed; nil: Health does not block
	selfTestErr  error         // result of the self-test
	observations int
	selfTests    int
	events       []string
}

func (w *fakeDevice) Health() health.Observation {
	w.mu.Lock()
	w.observations++
	hangs := w.hang
	w.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now
	w.now.XIDs = nil
	return now
}

func (w *fakeDevice) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *fakeDevice) configure(c *gpu.Config) {
	c.Health = w
	c.SelfTest = func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.selfTests++
		return w.selfTestErr
	}
	c.Publish = func(kind, subject, detail string) {
		w.set(func() { w.events = append(w.events, fmt.Sprintf("%s %s %s", kind, subject, detail)) })
	}
}

func (w *fakeDevice) selfTestCount() (n int)    { w.set(func() { n = w.selfTests }); return n }
func (w *fakeDevice) observationCount() (n int) { w.set(func() { n = w.observations }); return n }
func (w *fakeDevice) published() (all []string) {
	w.set(func() { all = slices.Clone(w.events) })
	return all
}

func ask(t *testing.T, p *testkit.Peer, pid *actor.PID) *messages.GpuStatus {
	t.Helper()
	p.Send(pid, &messages.GetGpu{})
	return last[status](t, p)
}

type (
	quarantineResult = *messages.QuarantineGpuResult
	releaseResult    = *messages.ReleaseGpuResult
)

const quarantined = messages.GpuState_GPU_STATE_QUARANTINED

// TestFaultsQuarantineDevice checks that each fault quarantines the device with its own cause and
// publishes an event.
func TestFaultsQuarantineDevice(t *testing.T) {
	for name, tc := range map[string]struct {
		now   health.Observation
		cause messages.QuarantineCause
		event string
	}{
		"lost": {health.Observation{Lost: "GPU is lost"},
			messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST,
			"gpu.quarantined node/gpu-0 device lost: GPU is lost"},
		"memory errors": {health.Observation{Uncorrectable: health.Known(1)},
			messages.QuarantineCause_QUARANTINE_CAUSE_MEMORY, "gpu.quarantined node/gpu-0 1 uncorrectable"},
		"fell off": {health.Observation{XIDs: []uint64{79}}, messages.QuarantineCause_QUARANTINE_CAUSE_XID,
			"gpu.quarantined node/gpu-0 XID 79"},
		"a kernel's own": {health.Observation{XIDs: []uint64{31}}, 0, "gpu.event node/gpu-0 XID 31"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &fakeDevice{now: health.Observation{Uncorrectable: health.Known(0),
					Temperature: health.Known(41)}}
				p, pid := playWith(t, &fakeModels{}, w.configure)
				synctest.Wait()
				if g := ask(t, p, pid); g.GetState() == quarantined || g.GetHealth().GetTemperatureCelsius() != 41 ||
					g.GetHealth().PowerMilliwatts != nil {
					t.Fatalf("%v", g)
				}
				w.set(func() { w.now = tc.now })
				time.Sleep(1100 * time.Millisecond)
				g := ask(t, p, pid)
				if (g.GetState() == quarantined) != (tc.cause != 0) || g.GetQuarantine().GetCause() != tc.cause ||
					len(w.published()) != 1 || !strings.HasPrefix(w.published()[0], tc.event) {
					t.Fatalf("%v, %q", g, w.published())
				}
				p.Send(pid, load("1", "m-0", "m"))
				synctest.Wait()
				if got := last[loadResult](t,
					p); (got.GetRefused().GetReason() == messages.Reason_REASON_QUARANTINED) != (tc.cause != 0) {
					t.Errorf("%v", got)
				}
			})
		})
	}
}

// TestQuarantineSurvivesCrash checks that a crash keeps the quarantine and the last observation, so
// that an old fault does not count as a new one.
func TestQuarantineSurvivesCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeDevice{now: health.Observation{RemapFailed: true}}
		crash := &testkit.Crash{On: "*messages.UnloadModel", Times: 2}
		p, pid := playWith(t, &fakeModels{}, w.configure, crash.Middleware)
		synctest.Wait()
		p.Send(pid, &messages.UnloadModel{})
		time.Sleep(time.Second)
		if g := ask(t, p, pid); g.GetQuarantine().GetCause() != messages.QuarantineCause_QUARANTINE_CAUSE_MEMORY {
			t.Fatalf("%v", g)
		}
		p.Send(pid, &messages.ReleaseGpu{RequestId: "r"})
		synctest.Wait()
		p.Send(pid, &messages.UnloadModel{})
		time.Sleep(3 * time.Second)
		if g := ask(t, p, pid); g.GetState() == quarantined || crash.Crashed() != 2 {
			t.Errorf("%v", g)
		}
	})
}

// TestReleaseEndsQuarantine checks that a quarantine ends after a passed self-test, or without one
// on request.
func TestReleaseEndsQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeDevice{selfTestErr: errors.New("a bit has changed")}
		p, pid := playWith(t, &fakeModels{}, w.configure)
		p.Send(pid, &messages.ReleaseGpu{RequestId: "0"})
		if r := last[releaseResult](t, p); r.GetReleased() == nil || w.selfTestCount() != 0 {
			t.Errorf("there was nothing to release: %v", r)
		}
		p.Send(pid, &messages.QuarantineGpu{RequestId: "q", Detail: "smoke"})
		if r := last[quarantineResult](t, p); r.GetRequestId() != "q" ||
			r.GetQuarantined().GetQuarantine().GetDetail() != "by operator request: smoke" {
			t.Errorf("%v", r)
		}
		p.Send(pid, &messages.ReleaseGpu{RequestId: "1"})
		if r := last[releaseResult](t, p).GetRefused(); r.GetReason() != messages.Reason_REASON_QUARANTINED ||
			!strings.Contains(r.GetDetail(), "a bit has changed") {
			t.Errorf("%v", r)
		}
		if g := ask(t, p, pid); g.GetState() != quarantined ||
			g.GetQuarantine().GetSelfTest() != "failed: a bit has changed" {
			t.Errorf("%v", g)
		}
		time.Sleep(time.Hour)
		if w.selfTestCount() != 1 {
			t.Errorf("%d self-tests, want only the requested one", w.selfTestCount())
		}
		p.Send(pid, &messages.ReleaseGpu{RequestId: "2", Untested: true})
		if r := last[releaseResult](t, p); r.GetRequestId() != "2" || r.GetReleased().GetQuarantine() != nil ||
			w.selfTestCount() != 1 {
			t.Errorf("%v", r)
		}
		if want := []string{"gpu.quarantined", "gpu.released"}; len(w.published()) != 2 ||
			!strings.HasPrefix(w.published()[1], want[1]) {
			t.Errorf("%q", w.published())
		}
		if told := testkit.Got[*messages.DeviceChanged](p); len(told) != 2 || told[0].GetGpu() != "gpu-0" {
			t.Errorf("the planner learned of %v", told)
		}
	})
}

// TestUntestedReleaseAnswersAll checks that a release without a self-test also answers the releases
// that wait for one.
func TestUntestedReleaseAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := &fakeDevice{}
		p, pid := playWith(t, &fakeModels{}, func(c *gpu.Config) {
			w.configure(c)
			c.SelfTest = func(context.Context) error { <-gate; return nil }
		})
		p.Send(pid, &messages.QuarantineGpu{RequestId: "q"})
		p.Send(pid, &messages.ReleaseGpu{RequestId: "1"})
		p.Send(pid, &messages.ReleaseGpu{RequestId: "2", Untested: true})
		synctest.Wait()
		close(gate)
		synctest.Wait()
		all := testkit.Got[releaseResult](p)
		if len(all) != 2 || all[0].GetReleased() == nil || all[1].GetReleased() == nil {
			t.Errorf("%v", all)
		}
	})
}

// TestQuarantineDuringSelfTest checks that a self-test does not end a quarantine that began while
// the test ran, because the test may have missed the new fault.
func TestQuarantineDuringSelfTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		w := &fakeDevice{}
		p, pid := playWith(t, &fakeModels{}, func(c *gpu.Config) {
			w.configure(c)
			c.SelfTest = func(context.Context) error { <-gate; return nil }
		})
		p.Send(pid, &messages.QuarantineGpu{RequestId: "q"})
		p.Send(pid, &messages.ReleaseGpu{RequestId: "1"})
		synctest.Wait()
		p.Send(pid, &messages.DeviceFailed{Lease: "m-0", Detail: "fault in troupe_matmul"})
		synctest.Wait()
		close(gate)
		if r := last[releaseResult](t, p).GetRefused(); r.GetReason() != messages.Reason_REASON_QUARANTINED ||
			!strings.Contains(r.GetDetail(), "quarantined again") {
			t.Errorf("%v", r)
		}
		if g := ask(t, p, pid); g.GetState() != quarantined {
			t.Errorf("%v", g)
		}
	})
}

// TestLostDeviceIsRetested lets an engine report that the device is lost. The models must be
// unloaded, loads refused, and the device tested at intervals until it passes.
func TestLostDeviceIsRetested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeDevice{selfTestErr: cuda.ErrDeviceLost}
		s := &fakeModels{}
		p, pid := playWith(t, s, w.configure)
		p.Send(pid, load("1", "m-0", "m"))
		synctest.Wait()
		p.Send(pid, &messages.DeviceFailed{Lease: "m-0", Detail: "fault in troupe_matmul"})
		p.Send(pid, load("2", "m-0", "m"))
		if r := last[loadResult](t, p).GetRefused(); r.GetReason() != messages.Reason_REASON_QUARANTINED ||
			!strings.Contains(r.GetDetail(), "troupe_matmul") {
			t.Errorf("the device is lost: %v", r)
		}
		time.Sleep(2 * time.Second)
		if g := ask(t, p, pid); len(s.Held()) != 0 || g.GetFreeBytes() != g.GetMemoryBytes() ||
			g.GetState() != quarantined || w.selfTestCount() != 0 {
			t.Errorf("%v, held %v", g, s.Held())
		}
		time.Sleep(70 * time.Second)
		if g := ask(t, p, pid); g.GetState() != quarantined || w.selfTestCount() != 2 {
			t.Errorf("%d self-tests: %v", w.selfTestCount(), g)
		}
		w.set(func() { w.selfTestErr = nil })
		time.Sleep(30 * time.Second)
		if g := ask(t, p, pid); g.GetState() == quarantined {
			t.Errorf("%v", g)
		}
	})
}

// TestQuarantinedDeviceAdopts checks that a model on a working quarantined device can be adopted:
// its sequences have yet to migrate.
func TestQuarantinedDeviceAdopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeDevice{}
		p, pid := playWith(t, &fakeModels{}, w.configure)
		p.Send(pid, load("1", "m-0", "m"))
		synctest.Wait()
		p.Send(pid, &messages.QuarantineGpu{RequestId: "q"})
		p.Send(pid, load("2", "m-0", "m"))
		if r := last[loadResult](t, p); !r.GetLoaded().GetAdopted() {
			t.Errorf("%v", r)
		}
	})
}

// TestHangingDeviceBlocksNothing checks that an observation that hangs blocks no request, and that
// no second one starts.
func TestHangingDeviceBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeDevice{hang: make(chan struct{})}
		p, pid := playWith(t, &fakeModels{}, w.configure)
		time.Sleep(time.Minute)
		if g := ask(t, p, pid); g.GetHealth() != nil || w.observationCount() != 1 {
			t.Errorf("%v, %d looks", g, w.observationCount())
		}
		close(w.hang)
	})
}
