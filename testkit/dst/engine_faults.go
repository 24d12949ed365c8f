package dst

import (
	"context"
	"errors"
	"sync"
	"time"

	"troupe/actors/supervise"
)

var (
	errStep = errors.New("the simulation fails the step")
	errLoad = errors.New("the simulation fails the load")
	errRead = errors.New("the simulation fails to read weights")

	errCapture = errors.New("the simulation fails the capture")
)

// engineFaults are the pending faults of the engines and loads of one node. Each of them occurs once.
type engineFaults struct {
	runtime supervise.Runtime
	gone    chan struct{} // closed when the node has crashed

	mu           sync.Mutex
	failSteps    int
	hang         []*hang // of the next steps
	hangLoads    []*hang
	failLoads    int
	failReads    int // of weights on a device
	failCaptures int
	hangCaptures []*hang
	captures     captureCounts
	hangReads    []*hang
	folders      map[string]int      // paths that cannot be read: for how many faults
	damage       int                 // loads that leave other bytes on the device than the source had
	known        func(*weights) bool // reports whether the canary of weights is recorded
	loseIn       []time.Duration     // the device is lost in the middle of the next steps, for so long
	slowUntil    time.Time
	slow         int // factor of step times until slowUntil
	hanging      int // steps, loads and captures that hang now
}

// hang is a time for which a step, load or capture does nothing.
type hang struct {
	d time.Duration
	// stuck means that the work does not end when its context does.
	stuck bool
}

func newEngineFaults(rt supervise.Runtime) *engineFaults {
	return &engineFaults{runtime: rt, gone: make(chan struct{}), slow: 1, folders: make(map[string]int)}
}

// change adds a fault.
func (f *engineFaults) change(add func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	add()
}

// cancel forgets the faults that have not occurred.
func (f *engineFaults) cancel() {
	f.change(func() {
		f.failSteps, f.failLoads, f.failReads, f.failCaptures, f.damage = 0, 0, 0, 0, 0
		f.hang, f.hangLoads, f.hangReads, f.hangCaptures, f.loseIn = nil, nil, nil, nil, nil
	})
}

// hangs reports whether a step, load or capture hangs now.
func (f *engineFaults) hangs() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hanging > 0
}

// nextOf removes and returns the first of a list.
func nextOf[T any](f *engineFaults, all *[]T) (first T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*all) == 0 {
		return first, false
	}
	first = (*all)[0]
	*all = (*all)[1:]
	return first, true
}

// take reports whether a number is positive, and decrements it.
func (f *engineFaults) take(n *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// factor returns the factor of the duration of a step.
func (f *engineFaults) factor() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runtime.Now().Before(f.slowUntil) {
		return time.Duration(f.slow)
	}
	return 1
}

// wait lets time pass, and the time of a pending hang.
func (f *engineFaults) wait(ctx context.Context, d time.Duration, hangs *[]*hang) error {
	h, ok := nextOf(f, hangs)
	if ok {
		f.change(func() { f.hanging++ })
		defer f.change(func() { f.hanging-- })
	} else {
		h = &hang{}
	}
	done := ctx.Done()
	if h.stuck {
		done = nil
	}
	select {
	case <-f.runtime.After(d + h.d):
		return ctx.Err()
	case <-done:
		return ctx.Err()
	case <-f.gone:
		return errors.New("the node has crashed")
	}
}
