package dst

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// World runs tasks one at a time: messages, timers, and jobs of all nodes. Its seed decides which
// of those that could run is next. It must run in a bubble of testing/synctest.
type World struct {
	Seed uint64

	rng   *rand.Rand
	trace trace

	mu       sync.Mutex
	runnable []task
	timers   timers
	lastID   uint64
	wake     chan struct{} // has room for one; a task was added

	starts int // nodes started

	instant  time.Time // of the last step
	busy     int       // steps in this instant
	livelock []string  // the last tasks of an instant that did not end
}

// task is something that can happen now.
type task struct {
	key   string        // its place among the runnable tasks
	label func() string // for the trace
	run   func()        // it may block: it runs in a goroutine of its own
}

// maxBusy is the number of tasks after which time must have passed.
const maxBusy = 100_000

// NewWorld returns a world without tasks.
func NewWorld(seed uint64) *World {
	return &World{Seed: seed, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), wake: make(chan struct{}, 1),
		trace: trace{hash: fnv.New64a()}}
}

// add makes a task runnable.
func (w *World) add(t task) {
	w.mu.Lock()
	w.insert(t)
	w.mu.Unlock()
	w.signal()
}

// insert keeps the runnable tasks in the order of their keys. What the seed picks then does not
// depend on which of two goroutines was faster. w.mu is held.
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

// Run runs tasks until done reports true between two of them, or until limit of virtual time has
// passed. It reports whether done was true.
func (w *World) Run(limit time.Duration, done func() bool) bool {
	until := time.Now().Add(limit)
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
		synctest.Wait() // everything that the last task has started is blocked now
		if done() {
			return true
		}
		if !w.step(until) {
			return false
		}
	}
}

// step runs one task, or lets time pass until there is one. It reports false once until is reached.
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
		go t.run()
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
	select {
	case <-w.wake:
	case <-time.After(next.Sub(now)):
	}
	return true
}

// Trace returns the hash of all that happened so far.
func (w *World) Trace() string { return fmt.Sprintf("%016x", w.trace.hash.Sum64()) }

// Steps returns the number of tasks that have run.
func (w *World) Steps() uint64 { return w.trace.steps }
