package link

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// TestWatchIsTakenOnce: a death, the loss of the address and an Unwatch race for the same watches.
func TestWatchIsTakenOnce(t *testing.T) {
	const n = 1000
	here, there := "127.0.0.1:1", "127.0.0.1:2"
	var w watches
	pair := func(i int) (*actor.PID, watch) {
		who := actor.NewPID(there, fmt.Sprint("watched-", i))
		return who, watchOf(actor.NewPID(here, fmt.Sprint("watcher-", i%10)), who)
	}
	for i := range n {
		w.add(pair(i))
		w.add(pair(i)) // adding it twice has no effect
	}
	unwatched := actor.NewPID(there, "unwatched")
	w.add(unwatched, watchOf(unwatched, unwatched))
	if !w.remove(unwatched, watchOf(unwatched, unwatched)) || w.remove(unwatched, watchOf(unwatched, unwatched)) {
		t.Error("a watch was missing or present twice")
	}
	elsewhere := actor.NewPID("127.0.0.1:3", "watched-0")
	watcher := watchOf(actor.NewPID(here, "watcher-0"), elsewhere)
	w.add(elsewhere, watcher)

	var taken atomic.Int64
	var takers sync.WaitGroup
	for range 2 {
		takers.Go(func() {
			for i := range n / 2 {
				if w.remove(pair(i)) {
					taken.Add(1)
				}
			}
		})
		takers.Go(func() {
			for watch, who := range w.takeAll(there) {
				if who.Address != there || who.Id != watch.watched {
					t.Errorf("%v watches %v", watch, who)
				}
				taken.Add(1)
			}
		})
	}
	takers.Wait()
	if taken.Load() != n {
		t.Errorf("of %d watches, %d were taken", n, taken.Load())
	}
	if w.remove(pair(n - 1)) {
		t.Error("a watch can be taken twice")
	}
	if !w.remove(elsewhere, watcher) {
		t.Error("a watch of another address was removed too")
	}
}
