package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// LoadRun is a load under way.
type LoadRun struct {
	load   *Load
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	nextRequest atomic.Int64 // the request to be made
	finishing   atomic.Bool
	open        []atomic.Int64 // chunks that the stream now open has had, by client
	marked      []atomic.Bool  // it was open at the last MarkOpen, likewise

	mu           sync.Mutex
	report       Report
	longestPause Pause // of the streams that were open at the last MarkOpen and have ended
}

// Start begins a load. It ends by itself, or with Finish, or is cut off with ctx.
func (l *Load) Start(ctx context.Context) *LoadRun {
	r := &LoadRun{load: l, done: make(chan struct{}), open: make([]atomic.Int64, l.Streams), marked: make([]atomic.Bool, l.Streams)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range l.Streams {
		clients.Go(func() { r.client(i) })
	}
	go func() {
		clients.Wait()
		r.cancel()
		slices.Sort(r.report.Pauses)
		slices.Sort(r.report.Affected)
		close(r.done)
	}()
	return r
}

// WaitStreaming waits until three clients of four have a stream open that has begun and not ended. The others are between two.
func (r *LoadRun) WaitStreaming(ctx context.Context) error {
	return r.until(ctx, func() error {
		open := 0
		for i := range r.open {
			if r.open[i].Load() > 0 {
				open++
			}
		}
		if open < (3*len(r.open)+3)/4 {
			return fmt.Errorf("%d of %d clients have a stream open", open, len(r.open))
		}
		return nil
	})
}

// until is Until, but for a load that has gone wrong, which nothing mends.
func (r *LoadRun) until(ctx context.Context, try func() error) error {
	return Until(ctx, func() error {
		if err := r.Failed(); err != nil {
			return permanentError{err}
		}
		return try()
	})
}

// MarkOpen remembers the streams that are open now: those that something is about to happen to.
func (r *LoadRun) MarkOpen() {
	r.mu.Lock()
	r.longestPause = Pause{}
	r.mu.Unlock()
	for i := range r.open {
		r.marked[i].Store(r.open[i].Load() > 0)
	}
}

// LongestPause is the longest pause of the streams of the last MarkOpen that have ended.
func (r *LoadRun) LongestPause() Pause {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.longestPause
}

// WaitMarked waits until every stream of the last MarkOpen has ended.
func (r *LoadRun) WaitMarked(ctx context.Context) error {
	return r.until(ctx, func() error {
		left := 0
		for i := range r.marked {
			if r.marked[i].Load() {
				left++
			}
		}
		if left > 0 {
			return fmt.Errorf("%d streams have not ended", left)
		}
		return nil
	})
}

// Finish waits for the end and returns what became of all. A load that repeats begins no further stream.
func (r *LoadRun) Finish() Report {
	r.finishing.Store(r.load.Repeat)
	<-r.done
	return r.report
}

// Failed reports the first error so far.
func (r *LoadRun) Failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.report.Errors) == 0 {
		return nil
	}
	return r.report.Err()
}

// client makes one request after the other.
func (r *LoadRun) client(i int) {
	for !r.finishing.Load() && r.ctx.Err() == nil {
		next := int(r.nextRequest.Add(1) - 1)
		if next >= len(r.load.Requests) && !r.load.Repeat {
			return
		}
		r.complete(i, next)
	}
}

// complete makes a request until it has its answer.
func (r *LoadRun) complete(i, number int) {
	which := number % len(r.load.Requests)
	var err error
	var pause Pause
	for try := number; ; try++ {
		gateway := r.load.Gateways[try%len(r.load.Gateways)]
		life := gateway.Process()
		pause, err = readStream(r.ctx, gateway, r.load.Requests[which], r.load.Answers[which], func() { r.open[i].Add(1) })
		r.open[i].Store(0)
		pause.Gateway = gateway.Name
		if err == nil || !retryable(err, life) || r.ctx.Err() != nil {
			err = wrap(err, fmt.Sprintf("request %d through %s", which, gateway.Name))
			break
		}
		r.mu.Lock()
		r.report.Retried++
		r.mu.Unlock()
		select {
		case <-r.ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	hit := r.marked[i].Swap(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.report.Errors = append(r.report.Errors, err)
		return
	}
	r.report.Streams++
	r.report.Pauses = append(r.report.Pauses, pause.Length)
	if hit {
		r.report.Affected = append(r.report.Affected, pause.Length)
		if pause.Length > r.longestPause.Length {
			r.longestPause = pause
		}
	}
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// retryable reports whether a client has to live with an error, and to ask again: nobody listened, the gateway takes nothing new
// since it is about to end, or it was killed under it. Nothing else is an excuse: neither a wrong answer nor a refusal. A gateway that ends in order may leave connections that it has not yet
// accepted, but no stream.
func retryable(err error, gateway *Process) bool {
	var wrong *mismatchError
	var refused *refusedError
	var status *statusError
	var cut *cutError
	switch {
	case errors.As(err, &status):
		return status.code == http.StatusServiceUnavailable && gateway.Terminating()
	case errors.As(err, &wrong), errors.As(err, &refused):
		return false
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.As(err, &cut):
		return gateway.Killed()
	}
	return gateway.Killed() || gateway.Terminating()
}
