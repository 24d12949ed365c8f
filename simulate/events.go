package simulate

import "time"

// kind is a kind of event. Of events at the same time, those of a lower kind are first.
type kind uint8

const (
	stepEnds kind = iota
	turnTimer
	reportTimer
	announceTimer
	retryTimer // of a replica that starts
	watchTimer // of a replica whose steps are watched
	copyEnds   // the first of all copies of weights
	delayed    // what a shell does after a time: see agenda
	commanded
	faultBegins
	arrival
)

// handler handles the events of an index of the queue.
type handler interface{ handle(key) }

// fault is a fault of the scenario. It has its index until it begins.
type fault struct {
	Fault
	sim *simulation
}

func (f *fault) handle(k key) {
	f.sim.freeIndex(k.index)
	f.sim.fail(f.Fault)
}

// command is a command of the scenario. It has its index until it is carried out.
type command struct {
	Command
	sim *simulation
}

func (c *command) handle(k key) {
	c.sim.freeIndex(k.index)
	c.sim.command(c.Command)
}

// register returns the index of a handler in the queue.
func (s *simulation) register(h handler) int {
	if n := len(s.free); n > 0 {
		index := s.free[n-1]
		s.free = s.free[:n-1]
		s.handlers[index] = h
		return index
	}
	s.handlers = append(s.handlers, h)
	s.queue.at = append(s.queue.at, -1)
	return len(s.handlers) - 1
}

// key orders events: by time, kind and index. The order does not depend on when an event was planned.
type key struct {
	at    time.Time
	kind  kind
	index int // of the handler
}

func (a key) before(b key) bool {
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.index < b.index
}

// queue has the next event of each handler. The one to handle first is at the root of a heap.
type queue struct {
	heap []key
	at   []int // position in the heap by index; -1: it has no event
}

// first returns the first event. It reports false if there is none.
func (q *queue) first() (key, bool) {
	if len(q.heap) == 0 {
		return key{}, false
	}
	return q.heap[0], true
}

// set replaces the event of an index.
func (q *queue) set(k key) {
	at := q.at[k.index]
	if at < 0 {
		at = len(q.heap)
		q.heap = append(q.heap, k)
		q.at[k.index] = at
	}
	q.heap[at] = k
	q.down(q.up(at))
}

// clear removes the event of an index.
func (q *queue) clear(index int) {
	at, last := q.at[index], len(q.heap)-1
	if at < 0 {
		return
	}
	q.swap(at, last)
	q.heap = q.heap[:last]
	q.at[index] = -1
	if at < last {
		q.down(q.up(at))
	}
}

func (q *queue) up(at int) int {
	for at > 0 && q.heap[at].before(q.heap[(at-1)/2]) {
		q.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
	return at
}

func (q *queue) down(at int) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(q.heap); child++ {
			if q.heap[child].before(q.heap[least]) {
				least = child
			}
		}
		if least == at {
			return
		}
		q.swap(at, least)
		at = least
	}
}

func (q *queue) swap(a, b int) {
	q.heap[a], q.heap[b] = q.heap[b], q.heap[a]
	q.at[q.heap[a].index], q.at[q.heap[b].index] = a, b
}
