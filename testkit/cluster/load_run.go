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

// LoadRun is a load in progress.
type LoadRun struct {
	load   *Load
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	nextRequest atomic.Int64 // number of the next request
	finishing   atomic.Bool
	resting     atomic.Bool    // since the last MarkOpen; see Load.Rest
	open        []atomic.Int64 // chunks received on each client's open stream
	marked      []atomic.Bool  // whether each client's stream was open at the last MarkOpen

	mu           sync.Mutex
	report       Report
	longestPause Pause // of the finished streams that were open at the last MarkOpen
}

// Start starts a load, which ends by itself, after Finish, or with ctx.
func (l *Load) Start(ctx context.Context) *LoadRun {
	r := &LoadRun{
		load:   l,
		done:   make(chan struct{}),
		open:   make([]atomic.Int64, l.Streams),
		marked: make([]atomic.Bool, l.Streams),
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range l.Streams {
		clients.Go(func() { r.client(i) })
	}
	go func() {
		clients.Wait()
		r.cancel()
		slices.Sort(r.report.First)
		slices.Sort(r.report.Pauses)
		slices.Sort(r.report.Affected)
		close(r.done)
	}()
	return r
}

// WaitStreaming waits until three quarters of the clients have a stream that has begun and not
// ended. The others are between two streams. It ends the rests that MarkOpen began.
func (r *LoadRun) WaitStreaming(ctx context.Context) error {
	r.resting.Store(false)
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

// until is like Until and also ends when the load has failed.
func (r *LoadRun) until(ctx context.Context, try func() error) error {
	return Until(ctx, func() error {
		if err := r.Failed(); err != nil {
			return permanentError{err}
		}
		return try()
	})
}

// MarkOpen marks the streams that are open now, usually before a fault.
func (r *LoadRun) MarkOpen() {
	r.mu.Lock()
	r.longestPause = Pause{}
	r.mu.Unlock()
	for i := range r.open {
		r.marked[i].Store(r.open[i].Load() > 0)
	}
	r.resting.Store(true)
}

// LongestPause returns the longest pause of the marked streams that have ended.
func (r *LoadRun) LongestPause() Pause {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.longestPause
}

// WaitMarked waits until all marked streams have ended.
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

// Finish waits for the end of the load and returns its report. A load that repeats starts no
// further streams.
func (r *LoadRun) Finish() Report {
	r.finishing.Store(r.load.Repeat)
	<-r.done
	return r.report
}

// Failed returns the error of the report so far, or nil.
func (r *LoadRun) Failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.report.Errors) == 0 {
		return nil
	}
	return r.report.Err()
}

// client makes requests one after the other.
func (r *LoadRun) client(i int) {
	for !r.finishing.Load() && r.ctx.Err() == nil {
		next := int(r.nextRequest.Add(1) - 1)
		if next >= len(r.load.Requests) && !r.load.Repeat {
			return
		}
		if marked := r.complete(i, next); !marked && r.resting.Load() {
			r.wait(r.load.Rest)
		}
	}
}

// wait waits for a while, or for the end of the load.
func (r *LoadRun) wait(d time.Duration) {
	select {
	case <-r.ctx.Done():
	case <-time.After(d):
	}
}

// complete repeats a request until it is answered. It reports whether its stream was open at the last MarkOpen.
func (r *LoadRun) complete(i, number int) (hit bool) {
	which := number % len(r.load.Requests)
	var err error
	var pause Pause
	var sent time.Time
	var first time.Duration
	began := time.Now()
	for try := number; ; try++ {
		gateway := r.load.Gateways[try%len(r.load.Gateways)]
		process := gateway.Process()
		sent = time.Now()
		pause, err = readStream(r.ctx, gateway, r.load.Requests[which], r.load.Answers[which], func() {
			if r.open[i].Add(1) == 1 {
				first = time.Since(began)
			}
		})
		r.open[i].Store(0)
		pause.Gateway = gateway.Name
		if err == nil || !retryable(err, process) || r.ctx.Err() != nil {
			err = wrap(err, fmt.Sprintf("request %d through %s", which, gateway.Name))
			break
		}
		r.mu.Lock()
		r.report.Retried++
		r.mu.Unlock()
		r.wait(pollInterval)
	}
	hit = r.marked[i].Swap(false)
	limit := time.Duration(r.load.Requests[which].Timeout * float64(time.Second))
	late := limit > 0 && time.Since(sent) >= limit
	if code := refusalCode(err); slices.Contains(r.load.Permitted, code) || code == timedOut && late {
		r.refused(code)
		return hit
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.report.Errors = append(r.report.Errors, err)
		return hit
	}
	r.report.Streams++
	r.report.First = append(r.report.First, first)
	r.report.Pauses = append(r.report.Pauses, pause.Length)
	if hit {
		r.report.Affected = append(r.report.Affected, pause.Length)
		if pause.Length > r.longestPause.Length {
			r.longestPause = pause
		}
	}
	return hit
}

// refused counts a permitted refusal. It returns after a while, as a client that waits before its
// next request.
func (r *LoadRun) refused(code string) {
	r.mu.Lock()
	if r.report.Refused == nil {
		r.report.Refused = map[string]int{}
	}
	r.report.Refused[code]++
	r.mu.Unlock()
	r.wait(pollInterval)
}

// timedOut is the code of a refusal because the time of a request was up.
const timedOut = "timeout"

// refusalCode returns the code of a refusal, or "".
func refusalCode(err error) string {
	var status *statusError
	var refused *refusedError
	switch {
	case errors.As(err, &status):
		return status.code
	case errors.As(err, &refused):
		return refused.code
	}
	return ""
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// retryable reports whether a client must accept an error and repeat the request: the connection
// was refused, the gateway is shutting down, or it was killed. Wrong answers and refusals are never
// retryable. A gateway that shuts down in order may drop connections that it has not accepted yet,
// but no streams.
func retryable(err error, gateway *Process) bool {
	var wrong *mismatchError
	var refused *refusedError
	var status *statusError
	var cut *cutError
	switch {
	case errors.As(err, &status):
		return status.status == http.StatusServiceUnavailable && gateway.Terminating()
	case errors.As(err, &wrong), errors.As(err, &refused):
		return false
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.As(err, &cut):
		return gateway.Killed()
	}
	return gateway.Killed() || gateway.Terminating()
}
