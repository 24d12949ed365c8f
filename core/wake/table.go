package wake

import "troupe/core/table"

// State is the state of a request at a router.
type State uint8

const (
	Absent State = iota
	Waiting
)

func (s State) String() string { return [...]string{"absent", "waiting"}[s] }

// Event is a kind of event.
type Event uint8

const (
	Asked     Event = iota // its session asked for a replica, and none serves
	Answered               // it was routed or refused
	Withdrawn              // its client has left
	Tick
)

func (e Event) String() string { return [...]string{"asked", "answered", "withdrawn", "tick"}[e] }

type (
	condition = func(*Queue, event) bool
	action    = func(*Queue, event)

	row   = table.Row[State, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	absent  = []State{Absent}
	waiting = []State{Waiting}
)

var (
	always  = guard{}
	expired = guard{"its deadline passed", (*Queue).expired}
	noPlace = guard{"no place", (*Queue).noPlace}
	lapsed  = guard{"not asked for 3 s", (*Queue).lapsed}
)

// rows is the table of doc.go. The first row that fits applies.
var rows = table.New("wake", []row{
	{absent, Asked, expired, same, (*Queue).refuseLate, "refuse: deadline"},
	{absent, Asked, noPlace, same, (*Queue).refuseFull, "refuse: queue full"},
	{absent, Asked, always, Waiting, (*Queue).join, "confirm the place"},
	{waiting, Asked, always, same, (*Queue).confirm, "confirm the place"},

	{waiting, Answered, always, Absent, (*Queue).remove, "—"},
	{waiting, Withdrawn, always, Absent, (*Queue).remove, "—"},

	{waiting, Tick, expired, Absent, (*Queue).expire, "refuse: deadline"},
	{waiting, Tick, lapsed, Absent, (*Queue).lapse, "—"},
	{waiting, Tick, always, same, (*Queue).nothing, "—"},
})

// fire applies the first row that fits an event.
func (q *Queue) fire(e event) {
	r := rows.Find(e.w.state, e.kind, func(holds condition) bool { return holds(q, e) })
	if r == nil {
		return
	}
	r.Do(q, e)
	if r.To != same {
		e.w.state = r.To
	}
}

func (q *Queue) expired(e event) bool {
	return !e.w.Deadline.IsZero() && !e.now.Before(e.w.Deadline)
}

func (q *Queue) lapsed(e event) bool { return e.now.Sub(e.w.asked) >= askTimeout }

func (q *Queue) noPlace(e event) bool {
	m := q.models[e.w.Model]
	return m != nil && len(m.waiting) >= e.w.Limit || e.w.Limit <= 0 ||
		q.bytes > 0 && q.bytes+e.w.Bytes > maxBytes
}

func (q *Queue) join(e event) {
	m := q.models[e.w.Model]
	if m == nil {
		m = &model{waiting: make(map[string]*waiter)}
		q.models[e.w.Model] = m
	}
	m.waiting[e.w.ID] = e.w
	q.waiting[e.w.ID] = e.w
	q.bytes += e.w.Bytes
	q.confirm(e)
}

func (q *Queue) confirm(e event) {
	e.w.asked = e.now
	q.emit(Confirm{e.w.ID})
}

func (q *Queue) remove(e event) {
	delete(q.waiting, e.w.ID)
	delete(q.models[e.w.Model].waiting, e.w.ID)
	q.bytes -= e.w.Bytes
}

func (q *Queue) expire(e event) {
	q.remove(e)
	q.refuseLate(e)
}

func (q *Queue) lapse(e event) {
	q.remove(e)
	q.emit(Drop{e.w.ID})
}

func (q *Queue) refuseLate(e event) { q.emit(Refuse{e.w.Request, DeadlinePassed}) }

func (q *Queue) refuseFull(e event) { q.emit(Refuse{e.w.Request, Full}) }

func (q *Queue) nothing(event) {}
