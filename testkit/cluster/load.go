package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Load is what clients ask for at once, and what they must get.
type Load struct {
	Requests []Request
	Answers  []Answer // to each request, of an undisturbed run
	Streams  int      // at once
	Gateways []*Node  // taken in turn; a client that is turned away goes to the next one
	Repeat   bool     // begin again after the last request, until told to finish
}

// Report is what became of a load.
type Report struct {
	Streams int             // that ended with exactly the expected answer
	Pauses  []time.Duration // the longest of each, in ascending order
	Retried int             // requests made again: their gateway was killed under them, or took nothing
	Errors  []error         // of the others, first come first
}

// Err says what went wrong in the report, if anything did.
func (r Report) Err() error {
	switch {
	case len(r.Errors) == 0 && r.Streams == 0:
		return errors.New("no stream was seen to its end")
	case len(r.Errors) == 0:
		return nil
	}
	return fmt.Errorf("%d of %d streams are not what they should be: %w", len(r.Errors), len(r.Errors)+r.Streams, errors.Join(r.Errors[:min(5, len(r.Errors))]...))
}

// String is the report in a line.
func (r Report) String() string {
	return fmt.Sprintf("%d streams exact, %d wrong, %d retried; longest pause p50 %s, p99 %s, max %s",
		r.Streams, len(r.Errors), r.Retried, ms(Quantile(r.Pauses, 0.5)), ms(Quantile(r.Pauses, 0.99)), ms(Quantile(r.Pauses, 1)))
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// Quantile returns the value that a share q of the ascending values does not exceed; 0 of none.
func Quantile(ascending []time.Duration, q float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(int(q*float64(len(ascending))), len(ascending)-1)]
}

// Running is a load under way.
type Running struct {
	load   *Load
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	next      atomic.Int64 // the request to be made
	finishing atomic.Bool
	open      []atomic.Int64 // chunks that the stream now open has had, by client

	mu     sync.Mutex
	report Report
}

// Start begins a load. It ends by itself, or with Finish, or is cut off with ctx.
func (l *Load) Start(ctx context.Context) *Running {
	r := &Running{load: l, done: make(chan struct{}), open: make([]atomic.Int64, l.Streams)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range l.Streams {
		clients.Go(func() { r.client(i) })
	}
	go func() {
		clients.Wait()
		r.cancel()
		slices.Sort(r.report.Pauses)
		close(r.done)
	}()
	return r
}

// Flowing waits until every client has a stream open that has begun and not ended.
func (r *Running) Flowing(ctx context.Context) error {
	return Until(ctx, func() error {
		for i := range r.open {
			if r.open[i].Load() == 0 {
				return fmt.Errorf("client %d has no stream yet", i)
			}
		}
		return nil
	})
}

// Finish waits for the end and returns what became of all. A load that repeats begins no further stream.
func (r *Running) Finish() Report {
	r.finishing.Store(r.load.Repeat)
	<-r.done
	return r.report
}

// Failed reports the first error so far.
func (r *Running) Failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.report.Errors) == 0 {
		return nil
	}
	return r.report.Err()
}

// client makes one request after the other.
func (r *Running) client(i int) {
	for !r.finishing.Load() && r.ctx.Err() == nil {
		next := int(r.next.Add(1) - 1)
		if next >= len(r.load.Requests) && !r.load.Repeat {
			return
		}
		r.complete(i, next)
	}
}

// complete makes a request until it has its answer.
func (r *Running) complete(i, number int) {
	which := number % len(r.load.Requests)
	var err error
	var pause time.Duration
	for try := number; ; try++ {
		gateway := r.load.Gateways[try%len(r.load.Gateways)]
		life := gateway.Process()
		pause, err = follow(r.ctx, gateway, r.load.Requests[which], r.load.Answers[which], func() { r.open[i].Add(1) })
		r.open[i].Store(0)
		if err == nil || !excused(err, life) || r.ctx.Err() != nil {
			err = in(err, fmt.Sprintf("request %d through %s", which, gateway.Name))
			break
		}
		r.mu.Lock()
		r.report.Retried++
		r.mu.Unlock()
		select {
		case <-r.ctx.Done():
		case <-time.After(pollEvery):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.report.Errors = append(r.report.Errors, err)
		return
	}
	r.report.Streams++
	r.report.Pauses = append(r.report.Pauses, pause)
}

func in(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// excused reports whether a client has to live with an error, and to ask again: nobody listened, or the gateway was killed under it.
// Nothing else is an excuse: neither a wrong answer nor a refusal. A gateway that ends in order may leave connections that it has not yet
// accepted, but no stream.
func excused(err error, gateway *Process) bool {
	var wrong *mismatch
	var refused *refusedError
	var status *statusError
	var cut *cutError
	switch {
	case errors.As(err, &wrong), errors.As(err, &refused), errors.As(err, &status):
		return false
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.As(err, &cut):
		return gateway.Killed()
	}
	return gateway.Killed() || gateway.Leaving()
}
