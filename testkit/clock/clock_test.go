package clock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"troupe/actors/supervise"
	"troupe/testkit/clock"
)

var _ supervise.Runtime = (*clock.Clock)(nil)

// TestAdvance checks that timers fire in order, at their time, and do not fire after Stop.
func TestAdvance(t *testing.T) {
	c := clock.New()
	began := c.Now()
	fired := make(chan int)
	var timers []supervise.Timer
	for _, d := range []time.Duration{3, 1, 2, 5} {
		timers = append(timers, c.AfterFunc(d*time.Second, func() { fired <- int(d) }))
	}
	if !timers[2].Stop() || timers[2].Stop() {
		t.Error("Stop of a pending timer must be true once")
	}
	after := c.After(4 * time.Second)
	var got []int
	for range 2 {
		c.Advance(2 * time.Second)
		got = append(got, <-fired)
	}
	if at := (<-after).Sub(began); at != 4*time.Second {
		t.Errorf("After 4s received %s", at)
	}
	if want := []int{1, 3}; !slices.Equal(got, want) {
		t.Errorf("fired after %d s, want %d", got, want)
	}
	if timers[0].Stop() || !timers[3].Stop() {
		t.Error("Stop is true for the pending timer only")
	}
}

// TestTimersStartedMeanwhile checks that one call of Advance also fires the timers that other
// timers start.
func TestTimersStartedMeanwhile(t *testing.T) {
	c := clock.New()
	ticks := make(chan struct{})
	go func() {
		for range 3 {
			<-c.After(time.Second)
			ticks <- struct{}{}
		}
	}()
	for range 3 {
		c.Await(1)
		c.Advance(time.Second)
		<-ticks
	}
}

// TestWithTimeout checks the errors of a context with a timeout.
func TestWithTimeout(t *testing.T) {
	c := clock.New()
	ctx, cancel := c.WithTimeout(t.Context(), time.Second)
	defer cancel()
	child, stop := context.WithCancel(ctx)
	defer stop()
	if d, ok := child.Deadline(); !ok || !d.Equal(c.Now().Add(time.Second)) || ctx.Err() != nil {
		t.Errorf("deadline %s, %v; error %v", d, ok, ctx.Err())
	}
	c.Advance(time.Second)
	<-child.Done()
	for _, one := range []context.Context{ctx, child} {
		if !errors.Is(one.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(one), context.DeadlineExceeded) {
			t.Errorf("%v, cause %v", one.Err(), context.Cause(one))
		}
	}
	ctx, cancel = c.WithTimeout(t.Context(), 0)
	defer cancel()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("without time: %v", ctx.Err())
	}
	ctx, cancel = c.WithTimeout(t.Context(), time.Second)
	cancel()
	c.Advance(time.Second)
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("after cancel: %v", ctx.Err())
	}
}
