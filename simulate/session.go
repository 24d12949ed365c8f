package simulate

import (
	"time"

	core "troupe/core/replica"
	"troupe/core/router"
	"troupe/core/session"
)

// Sessions know at once what happens to their sequences, and no message is lost. So the timers by which they
// notice a replica that is silent are only set for the requests on a node that is lost; the others are those of
// sessions that wait.

// perform carries out the effects of the session, in order. What the router and the replica answer comes after
// them.
func (q *request) perform(effects []session.Effect) {
	s := q.model.sim
	var ask func()
	for _, effect := range effects {
		switch e := effect.(type) {
		case session.AskRoute:
			ask = func() { q.route(e) }
		case session.Submit:
			ask = func() { q.submit(e) }
		case session.Unwatch:
			if q.replica != nil && q.replica.cutOff() {
				q.model.interrupted++
				s.record.note(s.key.at, "interrupt", "request", q.id, "replica", q.replica.name, "why",
					"the network of its node is cut")
			}
			q.replica = nil
		case session.SetTimer:
			q.timer, q.due = e, s.key.at.Add(e.After)
		case session.Cancel:
			if r := s.byAddress(e.At); r != nil && !r.ended && !r.cutOff() {
				r.touch()
				r.perform(r.machine.Cancel(q.id), s.key.at)
			}
		case session.Relay:
			s.refused(q, q.refusal)
		case session.Fail:
			s.refused(q, e.Detail)
		}
	}
	if ask != nil {
		ask()
	}
	q.setTimer()
}

func (q *request) route(e session.AskRoute) {
	s := q.model.sim
	q.model.sync()
	s.performRouter(s.router.Route(router.Request{ID: q.id, Model: q.model.Name, Prompt: q.computed(),
		Adapter: keyOf(q.adapter), Avoid: e.Avoid, Cause: e.Cause, Session: router.Actor{ID: q.id},
		Class: int(q.model.Class), Arrived: q.at, Wait: q.model.Wait, Begun: e.Begun}, s.key.at))
}

func (q *request) submit(e session.Submit) {
	s := q.model.sim
	if q.replica = s.byAddress(e.To); q.replica != nil && !q.stranded() {
		q.replica.submit(q, e.Waited, s.key.at)
	}
}

// setTimer sets the timer of a session that waits.
func (q *request) setTimer() {
	switch state := q.machine.State(); {
	case q.timer.Attempt == 0:
		return
	case state != session.Delayed && state != session.Waiting && !q.stranded():
		return
	}
	s, attempt := q.model.sim, q.timer.Attempt
	q.timer = session.SetTimer{}
	s.after(max(0, q.due.Sub(s.key.at)), func() {
		if s.requests[q.id] == q {
			q.perform(q.machine.Timer(attempt, s.key.at))
		}
	})
}

// stranded reports whether the replica of the request was lost with its node, or cannot be reached.
func (q *request) stranded() bool {
	return q.replica != nil && (q.replica.ended || q.replica.cutOff())
}

// strand makes the session notice that its replica is silent. Until now it has heard from the replica.
func (q *request) strand(r *replica) {
	now := q.model.sim.key.at
	for !q.due.After(now) {
		at := q.due
		q.machine.Status(r.session(), true, 0, at)
		for _, effect := range q.machine.Timer(q.timer.Attempt, at) {
			if e, set := effect.(session.SetTimer); set {
				q.timer, q.due = e, at.Add(e.After)
			}
		}
	}
	q.received(r, now)
	q.replica = r
	q.setTimer()
}

// computed returns the tokens of the prompt and of the output so far.
func (q *request) computed() []uint32 {
	if q.emitted == 0 {
		return q.tokens
	}
	all := append(make([]uint32, 0, len(q.tokens)+q.emitted), q.tokens...)
	for range q.emitted {
		all = append(all, q.token())
	}
	return all
}

// answered gives the session the answer of the router.
func (q *request) answered(e router.Answer) {
	s := q.model.sim
	switch {
	case e.Waits():
		if q.waits++; q.waits == 1 {
			s.record.note(s.key.at, "wait", "request", q.id, "model", q.model.Name)
		}
		q.perform(q.machine.Queued(s.key.at))
	case e.Refusal != router.Refusal{}:
		q.refusal = e.Refusal.Detail
		q.perform(q.machine.RouteRefused(session.Refusal{Reason: routeReasons[e.Refusal.Reason],
			Detail: e.Refusal.Detail, RetryAfter: e.Refusal.RetryAfter}, s.key.at))
	default:
		s.record.route(s, q.id, q)
		q.perform(q.machine.Routed(session.Replica{Name: e.Routed.Replica, Actor: session.Actor(e.Routed.Actor),
			Incarnation: e.Routed.Incarnation}, s.key.at))
	}
}

var routeReasons = map[router.Reason]session.Reason{router.NotReady: session.NotReady,
	router.QueueFull: session.QueueFull, router.NoMemory: session.NoMemory, router.NotFound: session.NotFound,
	router.Preempted: session.Preempted, router.Deadline: session.DeadlinePassed}

var replicaReasons = map[core.Reason]session.Reason{core.NotReady: session.NotReady,
	core.IsDraining: session.Draining, core.IsFaulty: session.Faulty, core.WeightsDiffer: session.WeightsDiffer,
	core.EngineFailed: session.EngineFailed, core.LoadFailed: session.LoadFailed, core.NoMemory: session.NoMemory,
	core.QueueFull: session.QueueFull, core.NotFound: session.NotFound, core.Unsupported: session.Unsupported,
	core.ReplicaPreempted: session.Preempted}

func refusalOf(r core.Refusal) session.Refusal {
	return session.Refusal{Reason: replicaReasons[r.Reason], Detail: r.Detail, RetryAfter: r.RetryAfter}
}

// refusedBy gives the session the refusal of a replica.
func (q *request) refusedBy(r *replica, why core.Refusal, now time.Time) {
	q.refusal = why.Detail
	q.perform(q.machine.SubmitRefused(r.session(), refusalOf(why), now))
}

// received gives the session the tokens that it has received so far.
func (q *request) received(r *replica, now time.Time) {
	if q.emitted > 0 {
		q.perform(q.machine.Emitted(session.Tokens{From: r.session(), Count: q.emitted}, now))
	}
}

// interrupted tells the session that its replica no longer has the sequence.
func (q *request) interrupted(r *replica, why core.Refusal) {
	now := q.model.sim.key.at
	q.refusal = why.Detail
	q.model.interrupted++
	q.model.sim.record.note(now, "interrupt", "request", q.id, "replica", r.name, "why", why.Detail)
	q.received(r, now)
	q.perform(q.machine.Interrupted(r.session(), r.incarnation, refusalOf(why), now))
}
