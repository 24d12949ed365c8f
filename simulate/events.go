package simulate

import "time"

// kind is a kind of event. Of events at the same time, those of a lower kind are first.
type kind uint8

const (
	stepEnds kind = iota
	turnTimer
	reportTimer
	announceTimer
	callDue // of the agenda
	arrival
)

// key orders events: by time, kind and index. The order does not depend on when an event was planned.
type key struct {
	at    time.Time
	kind  kind
	index int // of the replica or device
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

// queue has the next event of each replica and device. The one to handle first is at the root of a heap.
type queue struct {
	heap []key
	at   []int // position in the heap by index; -1: it has no event
}

func newQueue(indices int) queue {
	q := queue{at: make([]int, indices)}
	for i := range q.at {
		q.at[i] = -1
	}
	return q
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
