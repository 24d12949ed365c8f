package steps

import (
	"context"
	"sync"

	"troupe/actors/supervise"
)

// Background runs f in the background. The returned function cancels the context of f and waits
// until f has returned.
func Background(rt supervise.Runtime, f func(ctx context.Context)) (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	rt.Go(func() {
		defer close(done)
		f(ctx)
	})
	return func() { end(); <-done }
}

// All calls f concurrently for each number below n, and returns when all calls have returned.
func All(rt supervise.Runtime, n int, f func(i int)) {
	var running sync.WaitGroup
	for i := range n {
		supervise.GoIn(rt, &running, func() { f(i) })
	}
	running.Wait()
}
