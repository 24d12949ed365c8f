package gpu_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/gpu"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// stubborn holds models whose loads and unloads end when the test says so, whatever they are told.
type stubborn struct {
	*shelf
	goOn chan struct{}
}

func (s stubborn) Load(_ context.Context, spec engine.LoadSpec) (residency.Loaded, error) {
	<-s.goOn
	return s.shelf.Load(context.Background(), spec)
}

func (s stubborn) Unload(lease string) (int64, error) {
	<-s.goOn
	return s.shelf.Unload(lease)
}

// TestStopsAfterItsJobs: an actor that is stopped waits for what loads and unloads, since the device is closed next.
func TestStopsAfterItsJobs(t *testing.T) {
	for name, give := range map[string]func(*shelf) *messages.UnloadModel{
		"load": func(*shelf) *messages.UnloadModel { return nil },
		"unload": func(s *shelf) *messages.UnloadModel {
			s.held["m-0"] = residency.Loaded{LoadSpec: engine.LoadSpec{Lease: "m-0", KVBlocks: 1}, KVBlockBytes: 16 << 10}
			return &messages.UnloadModel{RequestId: "1", Lease: "m-0"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stubborn{&shelf{}, make(chan struct{})}
				var unload *messages.UnloadModel
				p, pid := playWith(t, s.shelf, func(c *gpu.Config) { c.Models, unload = s, give(s.shelf) })
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
					t.Error("it has stopped while its job runs")
				}
				close(s.goOn)
				synctest.Wait()
				if !stopped {
					t.Error("it has not stopped though its job has ended")
				}
			})
		})
	}
}

// TestLostIsTriedEmpty: whoever asks for a lost device waits until nothing is left on it, since it is opened again for its self-test.
func TestLostIsTriedEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := stubborn{&shelf{}, make(chan struct{}, 1)}, &ward{}
		p, pid := playWith(t, s.shelf, func(c *gpu.Config) {
			w.config(c)
			c.Models = s
		})
		s.goOn <- struct{}{}
		p.Send(pid, load("1", "m-0", "m"))
		synctest.Wait()
		p.Send(pid, &messages.DeviceFailed{Lease: "m-0", Detail: "a bad address"})
		p.Send(pid, &messages.ReleaseGpu{RequestId: "r"})
		time.Sleep(2500 * time.Millisecond) // it is observed, and emptied
		synctest.Wait()
		if w.tried() != 0 || len(testkit.Got[releaseResult](p)) != 0 {
			t.Errorf("%d self-tests of a device that holds something", w.tried())
		}
		close(s.goOn)
		time.Sleep(1500 * time.Millisecond)
		if r := last[releaseResult](t, p); r.GetReleased() == nil || w.tried() != 1 {
			t.Errorf("%v after %d self-tests", r, w.tried())
		}
	})
}
