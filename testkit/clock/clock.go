// Package clock provides a supervise.Runtime whose time advances only when the test advances it.
// Its goroutines, random numbers and IDs are those of supervise.System.
//
// It is for tests with real sockets or servers, which cannot run in a synctest bubble. Its time
// starts one hour in the future, so that socket deadlines computed from it do not expire.
package clock

import (
	"context"
	"slices"
	"sync"
	"time"

	"troupe/actors/supervise"
)

// Clock is the Runtime. It is safe for concurrent use.
type Clock struct {
	supervise.Runtime

	mu      sync.Mutex
	now     time.Time
	pending []*timer // sorted by time, then by the order in which they were started
	changed sync.Cond
}

// timer calls fire when its time has come.
type timer struct {
	clock *Clock
	at    time.Time
	fire  func(now time.Time)
}

// New returns a clock whose time stands still until Advance.
func New() *Clock {
	c := &Clock{Runtime: supervise.System, now: time.Now().Add(time.Hour)}
	c.changed.L = &c.mu
	return c
}

// Now implements supervise.Runtime.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance advances the time by d and fires, in order, the timers that expire by then, including
// timers that these start.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for end := c.now.Add(d); ; {
		if len(c.pending) == 0 || c.pending[0].at.After(end) {
			c.now = end
			return
		}
		next := c.pending[0]
		c.pending = c.pending[1:]
		if next.at.After(c.now) {
			c.now = next.at
		}
		c.mu.Unlock()
		next.fire(next.at)
		c.mu.Lock()
	}
}

// Await waits until n timers are pending, that is, neither fired nor stopped. The timer of After
// remains pending even if its caller stops waiting.
func (c *Clock) Await(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) < n {
		c.changed.Wait()
	}
}

// start calls fire after d, or at once if d is not positive.
func (c *Clock) start(d time.Duration, fire func(now time.Time)) *timer {
	if d <= 0 {
		fire(c.Now())
		return &timer{clock: c}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{clock: c, at: c.now.Add(d), fire: fire}
	i := slices.IndexFunc(c.pending, func(later *timer) bool { return later.at.After(t.at) })
	if i < 0 {
		i = len(c.pending)
	}
	c.pending = slices.Insert(c.pending, i, t)
	c.changed.Broadcast()
	return t
}

// Stop implements supervise.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	i := slices.Index(t.clock.pending, t)
	if i >= 0 {
		t.clock.pending = slices.Delete(t.clock.pending, i, i+1)
	}
	return i >= 0
}

// After implements supervise.Runtime.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	c.start(d, func(now time.Time) { fired <- now })
	return fired
}

// AfterFunc implements supervise.Runtime.
func (c *Clock) AfterFunc(d time.Duration, f func()) supervise.Timer {
	return c.start(d, func(time.Time) { c.Go(f) })
}

// WithTimeout implements supervise.Runtime.
func (c *Clock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	t := &timeout{Context: parent, deadline: c.Now().Add(d), done: make(chan struct{})}
	if earlier, ok := parent.Deadline(); ok && earlier.Before(t.deadline) {
		t.deadline = earlier
	}
	ends := c.start(d, func(time.Time) { t.end(context.DeadlineExceeded) })
	stop := context.AfterFunc(parent, func() { ends.Stop(); t.end(parent.Err()) })
	return t, func() { stop(); ends.Stop(); t.end(context.Canceled) }
}

// timeout is a context that a clock cancels. Its values are those of its parent.
type timeout struct {
	context.Context
	deadline time.Time
	done     chan struct{}

	mu  sync.Mutex
	err error
}

func (t *timeout) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
		close(t.done)
	}
}

// Deadline implements context.Context.
func (t *timeout) Deadline() (time.Time, bool) { return t.deadline, true }

// Done implements context.Context.
func (t *timeout) Done() <-chan struct{} { return t.done }

// Err implements context.Context.
func (t *timeout) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
