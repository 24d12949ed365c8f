package dst

import (
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"troupe/actors/supervise"
)

// Runtime returns the supervise.Runtime of a node.
func (w *World) Runtime(node string) supervise.Runtime { return &nodeRuntime{w, node, node + " timer"} }

type nodeRuntime struct {
	world *World
	node  string
	timer string // label of its timers
}

// Now implements supervise.Runtime. The world uses the clock of the synctest bubble.
func (r *nodeRuntime) Now() time.Time { return time.Now() }

// After implements supervise.Runtime.
func (r *nodeRuntime) After(d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	r.AfterFunc(d, func() { c <- time.Now() })
	return c
}

// AfterFunc implements supervise.Runtime.
func (r *nodeRuntime) AfterFunc(d time.Duration, f func()) supervise.Timer {
	return r.world.addTimer(&timer{at: time.Now().Add(max(d, 0)), label: r.timer, fire: f})
}

// addTimer adds a timer to the world.
func (w *World) addTimer(t *timer) *timer {
	w.actions.Add(1)
	w.mu.Lock()
	w.lastID++
	t.world, t.id = w, w.lastID
	heap.Push(&w.timers, t)
	w.mu.Unlock()
	w.signal()
	return t
}

// at calls f at the given time.
func (w *World) at(when time.Time, label func() string, f func()) {
	w.addTimer(&timer{at: when, labelOf: label, fire: f})
}

// OnDone implements supervise.Runtime.
func (r *nodeRuntime) OnDone(ctx context.Context, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() { r.Go(f) })
}

// Go implements supervise.Runtime.
func (r *nodeRuntime) Go(f func()) {
	r.world.actions.Add(1)
	r.world.jobs.Add(1)
	r.world.mu.Lock()
	r.world.lastID++
	key := r.node + " job " + strconv.FormatUint(r.world.lastID, 10)
	r.world.mu.Unlock()

	r.world.add(task{key: key, label: func() string { return r.node + " job" }, run: f})
}

// Uint64 implements supervise.Runtime.
func (r *nodeRuntime) Uint64() uint64 {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	return r.world.rng.Uint64()
}

// ReadRandom implements supervise.Runtime.
func (r *nodeRuntime) ReadRandom(b []byte) {
	var next [8]byte
	for len(b) > 0 {
		binary.LittleEndian.PutUint64(next[:], r.Uint64())
		b = b[copy(b, next[:]):]
	}
}

// ID implements supervise.Runtime.
func (r *nodeRuntime) ID() string { return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()) }

// timer is a timer of AfterFunc.
type timer struct {
	world *World
	at    time.Time
	id    uint64 // in the order in which timers were started
	index int    // in the heap; -1: fired or stopped
	fire  func()

	label   string
	labelOf func() string // overrides label
}

// Stop implements supervise.Timer.
func (t *timer) Stop() bool {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&t.world.timers, t.index)
	return true
}

// timers is a heap of timers by time.
type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].id < h[j].id
	}
	return h[i].at.Before(h[j].at)
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timers) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	*h, t.index = (*h)[:last], -1
	return t
}

// task returns the task that runs when the timer fires.
func (t *timer) task() task {
	label := t.labelOf
	if label == nil {
		label = func() string { return t.label }
	}
	return task{key: "timer " + strconv.FormatUint(t.id, 10), label: label, run: t.fire}
}
