package simulate

import (
	"container/heap"
	"time"
)

// agenda has the events of pools, tiers and copies: what is to be called, and when. Of calls at the same time, the
// one planned first is first. They are planned by events that are never run ahead or late, so their order does not
// depend on whether steady steps run at once.
type agenda struct {
	calls   calls
	planned uint64
	index   int // of its event
}

type call struct {
	at     time.Time
	number uint64
	do     func()
}

// after calls a function after a time.
func (s *simulation) after(delay time.Duration, do func()) {
	s.agenda.planned++
	heap.Push(&s.agenda.calls, call{s.key.at.Add(delay), s.agenda.planned, do})
	s.agenda.plan(s)
}

// plan plans the event of the first call.
func (a *agenda) plan(s *simulation) {
	if len(a.calls) > 0 {
		s.queue.set(key{a.calls[0].at, callDue, a.index})
	}
}

// run makes the first call.
func (a *agenda) run(s *simulation) {
	heap.Pop(&a.calls).(call).do()
	a.plan(s)
}

// post delivers a message between two actors, after the one that is being handled.
func (s *simulation) post(do func()) { s.mail = append(s.mail, message{do: do}) }

// calls is a heap, the earliest first.
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
