package simulate

import (
	"container/heap"
	"time"
)

// agenda has what shells do after a time. What is due at the same time is done in the order in which it was planned.
// It is planned by events that are never run ahead or late, so the order does not depend on whether steady steps run
// at once.
type agenda struct {
	sim     *simulation
	index   int // of its event, which is the first call
	calls   calls
	planned uint64
}

// call is something to do once.
type call struct {
	at     time.Time
	number uint64
	do     func()
}

// after does something after a time.
func (s *simulation) after(delay time.Duration, do func()) {
	a := &s.agenda
	a.planned++
	heap.Push(&a.calls, call{s.key.at.Add(delay), a.planned, do})
	a.plan()
}

func (a *agenda) plan() {
	if len(a.calls) > 0 {
		a.sim.queue.set(key{a.calls[0].at, delayed, a.index})
	}
}

// handle makes the first call.
func (a *agenda) handle(key) {
	first := heap.Pop(&a.calls).(call)
	first.do()
	a.plan()
}

// calls is a heap, the first call at its root.
type calls []call

func (c calls) Len() int { return len(c) }
func (c calls) Less(i, j int) bool {
	if !c[i].at.Equal(c[j].at) {
		return c[i].at.Before(c[j].at)
	}
	return c[i].number < c[j].number
}
func (c calls) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *calls) Push(x any)   { *c = append(*c, x.(call)) }
func (c *calls) Pop() any {
	last := (*c)[len(*c)-1]
	(*c)[len(*c)-1] = call{}
	*c = (*c)[:len(*c)-1]
	return last
}
