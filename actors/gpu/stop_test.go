package gpu_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/gpu"
	weights "troupe/core/residency"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// blockingModels holds models whose loads and unloads block until the test lets them proceed. They
// ignore cancellation.
type blockingModels struct {
	*fakeModels
	proceed chan struct{}
}

func (s blockingModels) LoadWeights(
	_ context.Context, number uint64, from weights.Source, ticket string,
) (weights.Content, error) {
	<-s.proceed
	return s.fakeModels.LoadWeights(context.Background(), number, from, ticket)
}

func (s blockingModels) Unload(lease string) (int64, error) {
	<-s.proceed
	return s.fakeModels.Unload(lease)
}

// TestStopWaitsForJobs checks that a stopped actor waits for loads and unloads, because the device
// is closed next.
func TestStopWaitsForJobs(t *testing.T) {
	for name, give := range map[string]func(*fakeModels) *messages.UnloadModel{
		"load": func(*fakeModels) *messages.UnloadModel { return nil },
		"unload": func(s *fakeModels) *messages.UnloadModel {
			s.held["m-0"] = residency.Loaded{LoadSpec: engine.LoadSpec{Lease: "m-0", KVBlocks: 1},
				KVBlockBytes: 16 << 10}
			return &messages.UnloadModel{RequestId: "1", Lease: "m-0"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := blockingModels{&fakeModels{}, make(chan struct{})}
				var unload *messages.UnloadModel
				p, pid := playWith(t, s.fakeModels, func(c *gpu.Config) { c.Models, unload = s, give(s.fakeModels) })
				if unload != nil {
					p.Send(pid, unload)
				} else {
					p.Send(pid, load("1", "m-0", "m"))
				}
				synctest.Wait()
				stopped := false
				go func() {
					_ = p.System().Root.StopFuture(pid).Wait()
					stopped = true
				}()
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if stopped {
					t.Error("stopped while its job runs")
				}
				close(s.proceed)
				synctest.Wait()
				if !stopped {
					t.Error("not stopped after its job")
				}
			})
		})
	}
}

// TestLoadOfFreeingLeaseIsRetried checks that a model whose memory is being freed is not adopted.
func TestLoadOfFreeingLeaseIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := blockingModels{&fakeModels{}, make(chan struct{}, 1)}
		p, pid := playWith(t, s.fakeModels, func(c *gpu.Config) { c.Models = s })
		s.proceed <- struct{}{}
		p.Send(pid, load("1", "m-0", "m"))
		synctest.Wait()
		p.Send(pid, &messages.UnloadModel{RequestId: "u", Lease: "m-0"})
		p.Send(pid, load("2", "m-0", "m"))
		if r := last[loadResult](t, p); r.GetRefused().GetReason() != messages.Reason_REASON_NOT_READY ||
			r.GetRefused().GetRetryAfter().AsDuration() <= 0 {
			t.Errorf("%v", r)
		}
		close(s.proceed)
		synctest.Wait()
		p.Send(pid, load("3", "m-0", "m"))
		if r := last[loadResult](t, p); r.GetRequestId() != "3" || r.GetLoaded().GetAdopted() || r.GetLoaded() == nil {
			t.Errorf("%v", r)
		}
	})
}

// TestLostDeviceIsTestedWhenEmpty checks that the release of a lost device waits until the device
// is empty, because the self-test reopens it.
func TestLostDeviceIsTestedWhenEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := blockingModels{&fakeModels{}, make(chan struct{}, 1)}, &fakeDevice{}
		p, pid := playWith(t, s.fakeModels, func(c *gpu.Config) {
			w.configure(c)
			c.Models = s
		})
		s.proceed <- struct{}{}
		p.Send(pid, load("1", "m-0", "m"))
		synctest.Wait()
		p.Send(pid, &messages.DeviceFailed{Lease: "m-0", Detail: "a bad address"})
		p.Send(pid, &messages.ReleaseGpu{RequestId: "r"})
		time.Sleep(2500 * time.Millisecond) // time for one observation and the unload
		synctest.Wait()
		if w.selfTestCount() != 0 || len(testkit.Got[releaseResult](p)) != 0 {
			t.Errorf("%d self-tests of a device in use", w.selfTestCount())
		}
		close(s.proceed)
		time.Sleep(1500 * time.Millisecond)
		if r := last[releaseResult](t, p); r.GetReleased() == nil || w.selfTestCount() != 1 {
			t.Errorf("%v after %d self-tests", r, w.selfTestCount())
		}
	})
}
