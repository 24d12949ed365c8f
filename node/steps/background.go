package steps

import (
	"context"

	"troupe/actors/supervise"
)

// Background runs f in the background. The returned function ends the context of f and waits until
// f has returned.
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
	done := make(chan struct{})
	for i := range n {
		rt.Go(func() {
			defer func() { done <- struct{}{} }()
			f(i)
		})
	}
	for range n {
		<-done
	}
}
