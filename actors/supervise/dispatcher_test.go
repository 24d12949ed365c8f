package supervise_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"troupe/actors/supervise"
)

// TestDispatcherReusesGoroutines checks that every scheduled function runs at once, and that some
// goroutines stay idle, are reused, and end with the dispatcher. Functions scheduled after Close
// run too.
func TestDispatcherReusesGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := supervise.NewDispatcher()
		for _, c := range []struct{ works, waiting, after int }{{100, 0, 32}, {5, 27, 32}, {100, 0, 32}} {
			var all sync.WaitGroup
			release := make(chan struct{})
			for range c.works {
				all.Add(1)
				d.Schedule(func() { defer all.Done(); <-release })
			}
			synctest.Wait()
			if n := d.Idle(); n != c.waiting {
				t.Errorf("%d idle goroutines besides %d busy ones", n, c.works)
			}
			close(release)
			all.Wait()
			synctest.Wait()
			if n := d.Idle(); n != c.after {
				t.Errorf("%d of %d goroutines are kept", n, c.works)
			}
		}
		d.Close()
		synctest.Wait()
		ran := make(chan struct{})
		d.Schedule(func() { close(ran) })
		<-ran
	})
}
