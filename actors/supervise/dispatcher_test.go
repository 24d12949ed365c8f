package supervise_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"troupe/actors/supervise"
)

// TestDispatcherKeepsGoroutines: what is scheduled runs at once, however much does; some of the goroutines wait for more, are used again, and end with
// the dispatcher, as the bubble's end shows. What is scheduled afterwards runs too.
func TestDispatcherKeepsGoroutines(t *testing.T) {
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
			if n := d.Waiting(); n != c.waiting {
				t.Errorf("%d goroutines wait beside %d that work", n, c.works)
			}
			close(release)
			all.Wait()
			synctest.Wait()
			if n := d.Waiting(); n != c.after {
				t.Errorf("%d goroutines are kept of %d", n, c.works)
			}
		}
		d.Close()
		synctest.Wait()
		ran := make(chan struct{})
		d.Schedule(func() { close(ran) })
		<-ran
	})
}
