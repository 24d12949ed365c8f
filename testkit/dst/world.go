package dst

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// World runs tasks one at a time: messages, timers, and jobs of all nodes. Its seed decides which
// of the runnable tasks is next. It must run in a testing/synctest bubble.
type World struct {
	Seed uint64

	rng     *rand.Rand
	trace   trace
	workers workers

	mu       sync.Mutex
	runnable []task
	timers   timers
	lastID   uint64
	wake     chan struct{} // has a capacity of one; signals that a task was added
	pause    *time.Timer   // ends the wait for a timer; nil until the first one

	starts  int           // number of nodes started
	actions atomic.Uint64 // messages sent, and timers and jobs started
	jobs    atomic.Uint64 // jobs started

	instant  time.Time // of the last step
	busy     int       // number of steps at this instant
	livelock []string  // the last tasks of an instant at which tasks never ceased
}

// task is something that can run now.
type task struct {
	key   string        // determines its position among the runnable tasks
	label func() string // for the trace
	run   func()        // may block, so it runs in its own goroutine
}

// maxBusy is the maximum number of tasks at one instant. A run that reaches it is in a livelock.
const maxBusy = 100_000

// NewWorld returns a world without tasks.
func NewWorld(seed uint64) *World {
	return &World{Seed: seed, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), wake: make(chan struct{}, 1),
		trace: trace{hash: fnvOffset}}
}

// add makes a task runnable.
func (w *World) add(t task) {
	w.mu.Lock()
	w.insert(t)
	w.mu.Unlock()
	w.signal()
}

// insert adds a task to the runnable ones, sorted by key, so that the seed's choice does not depend
// on which of two goroutines was faster. The caller must hold w.mu.
func (w *World) insert(t task) {
	i, _ := slices.BinarySearchFunc(w.runnable, t, func(a, b task) int {
		if a.key <= b.key {
			return -1
		}
		return 1
	})
	w.runnable = slices.Insert(w.runnable, i, t)
}

// signal ends the wait for a task.
func (w *World) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run runs tasks until done returns true between two of them, or until limit of virtual time has
// passed. It reports whether done returned true.
func (w *World) Run(limit time.Duration, done func() bool) bool {
	until := time.Now().Add(limit)
	w.workers.open()
	defer w.workers.close()
	for {
		if now := time.Now(); !now.Equal(w.instant) {
			w.instant, w.busy = now, 0
		}
		if w.busy++; w.busy > maxBusy {
			if w.livelock == nil {
				w.livelock = w.trace.recent()
			}
			return false
		}
		synctest.Wait() // everything that the last task started is blocked now
		if done() {
			return true
		}
		if !w.step(until) {
			return false
		}
	}
}

// step runs one task. If none is runnable, it lets time pass until one is. It returns false once
// until is reached.
func (w *World) step(until time.Time) bool {
	now := time.Now()
	w.mu.Lock()
	for len(w.timers) > 0 && !w.timers[0].at.After(now) {
		t := heap.Pop(&w.timers).(*timer)
		w.insert(t.task())
	}
	if n := len(w.runnable); n > 0 {
		i := w.rng.IntN(n)
		t := w.runnable[i]
		w.runnable = append(w.runnable[:i], w.runnable[i+1:]...)
		w.mu.Unlock()
		w.trace.add(now, t.label())
		w.workers.start(t.run)
		return true
	}
	next := until
	if len(w.timers) > 0 && w.timers[0].at.Before(until) {
		next = w.timers[0].at
	}
	w.mu.Unlock()
	if !now.Before(until) {
		return false
	}
	if w.pause == nil {
		w.pause = time.NewTimer(next.Sub(now))
	} else {
		w.pause.Reset(next.Sub(now))
	}
	defer w.pause.Stop()
	select {
	case <-w.wake:
	case <-w.pause.C:
	}
	return true
}

// Trace returns a hash of everything that has happened so far.
func (w *World) Trace() string { return fmt.Sprintf("%016x", uint64(w.trace.hash)) }

// Steps returns the number of tasks that have run.
func (w *World) Steps() uint64 { return w.trace.steps }
