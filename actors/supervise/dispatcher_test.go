package supervise_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"troupe/actors/supervise"
)

// TestDispatcherKeepsGoroutines: what is scheduled while others wait or run is run at once; those that wait are used again, and end with the dispatcher.
func TestDispatcherKeepsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		d := supervise.NewDispatcher()
		for range 5 {
			var all sync.WaitGroup
			release := make(chan struct{})
			for range 100 {
				all.Add(1)
				d.Schedule(func() { defer all.Done(); <-release })
			}
			synctest.Wait()
			close(release)
			all.Wait()
			synctest.Wait()
			if n := runtime.NumGoroutine() - before; n != 32 {
				t.Fatalf("%d goroutines are kept", n)
			}
		}
		d.Close()
		synctest.Wait()
		ran := make(chan struct{})
		d.Schedule(func() { close(ran) })
		<-ran
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n != 0 {
			t.Errorf("%d goroutines are left", n)
		}
	})
}
