package wake

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// AskInterval is the time after which a session asks again for a request that waits.
	AskInterval = time.Second

	askTimeout   = 3 * time.Second // without being asked for, a request is dropped
	wakeInterval = time.Second     // between two Wakes for a model with waiting requests
	maxBytes     = 64 << 20        // of the prompts of all waiting requests
)

// Request is a request for a model without a serving replica.
type Request struct {
	ID, Model string
	Class     int // a higher one is served first
	Arrived   time.Time
	Deadline  time.Time // zero: none
	Bytes     int       // of its prompt
	Limit     int       // requests that may wait for the model
}

// Queue holds the waiting requests of a router. It is not safe for concurrent use.
type Queue struct {
	models  map[string]*model // those with waiting requests, or that are to be reported with 0
	waiting map[string]*waiter
	bytes   int
	effects []Effect
}

// waiter is a request and its state.
type waiter struct {
	Request
	state State
	asked time.Time // when its session last asked for it
}

// model has the requests for a model.
type model struct {
	waiting map[string]*waiter // by ID
	woken   time.Time          // of the last Wake; zero: none
}

// event is one event of the table.
type event struct {
	kind Event
	now  time.Time
	w    *waiter
}

// New returns an empty queue.
func New() *Queue { return &Queue{models: make(map[string]*model), waiting: make(map[string]*waiter)} }

// Ask takes a request that no replica can serve, or repeats it.
func (q *Queue) Ask(r Request, now time.Time) []Effect {
	w := q.waiting[r.ID]
	if w == nil {
		w = &waiter{Request: r}
	}
	q.fire(event{Asked, now, w})
	q.report(now)
	return q.take()
}

// Answered removes requests that the caller has answered. Of several, it takes all at once: a report counts
// those that still wait after the last one.
func (q *Queue) Answered(now time.Time, ids ...string) []Effect {
	return q.leave(Answered, now, ids...)
}

// Withdraw removes a request whose client has left.
func (q *Queue) Withdraw(id string, now time.Time) []Effect { return q.leave(Withdrawn, now, id) }

func (q *Queue) leave(kind Event, now time.Time, ids ...string) []Effect {
	for _, id := range ids {
		if w := q.waiting[id]; w != nil {
			q.fire(event{kind, now, w})
		}
	}
	q.report(now)
	return q.take()
}

// Tick drops the requests that must not wait any longer, and reports the models. It must be called
// several times a second.
func (q *Queue) Tick(now time.Time) []Effect {
	for _, name := range slices.Sorted(maps.Keys(q.models)) {
		for _, w := range q.inOrder(name) {
			q.fire(event{Tick, now, w})
		}
	}
	q.report(now)
	return q.take()
}

// Models returns the models with waiting requests, by name.
func (q *Queue) Models() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(q.models)) {
		if len(q.models[name].waiting) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Waiting returns the IDs of the requests that wait for a model, in the order in which they are to
// be served.
func (q *Queue) Waiting(model string) (ids []string) {
	for _, w := range q.inOrder(model) {
		ids = append(ids, w.ID)
	}
	return ids
}

// Len returns the number of requests that wait for a model.
func (q *Queue) Len(model string) int {
	if m := q.models[model]; m != nil {
		return len(m.waiting)
	}
	return 0
}

// inOrder returns the requests that wait for a model: the highest class first, then by arrival.
func (q *Queue) inOrder(name string) []*waiter {
	m := q.models[name]
	if m == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(m.waiting), func(a, b *waiter) int {
		return cmp.Or(cmp.Compare(b.Class, a.Class), a.Arrived.Compare(b.Arrived), cmp.Compare(a.ID, b.ID))
	})
}

// report emits the Wakes that are due. One with 0 is due at once, so that requests that were answered do not
// wake a deployment that an operator has put to sleep since.
func (q *Queue) report(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(q.models)) {
		m := q.models[name]
		if len(m.waiting) > 0 && !m.woken.IsZero() && now.Sub(m.woken) < wakeInterval {
			continue
		}
		q.emit(Wake{name, len(m.waiting)})
		if m.woken = now; len(m.waiting) == 0 {
			delete(q.models, name)
		}
	}
}

func (q *Queue) emit(e Effect) { q.effects = append(q.effects, e) }

func (q *Queue) take() []Effect {
	effects := q.effects
	q.effects = nil
	return effects
}
