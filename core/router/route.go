package router

import (
	"slices"
	"time"

	"troupe/core/kv"
	"troupe/core/route"
	"troupe/core/wake"
)

// Request is a request for a replica.
type Request struct {
	ID       string
	Model    string
	Adapter  string   // name and revision; empty: none
	Prompt   []uint32 // tokens of the prompt and of the output so far
	Salt     []byte   // salt of the client's KV blocks
	Avoid    []string // replicas that the session has lost
	Revision string   // digest of the files that computed the output so far; empty: any
	Cause    string   // why the request is routed again

	Session  Actor // that the answer goes to
	Class    int   // the higher, the sooner it is served
	Arrived  time.Time
	Deadline time.Time // zero: none
	Wait     bool      // it waits even if no device has room for the model, or an operator keeps it from serving
	Begun    bool      // a replica was found for it before
	held     bool      // while it waited, an operator set a level of the model
}

// Routed is the replica for a request.
type Routed struct {
	Replica     string
	Node        string
	Actor       Actor
	Incarnation uint64
}

// Route answers a request with the replica that is expected to serve it soonest, or with a refusal.
// If no replica serves its model yet, it waits. The decision is logged.
func (m *Machine) Route(r Request, now time.Time) []Effect {
	m.age(now)
	r.held = m.requests[r.ID].held
	d := m.decide(r)
	if m.answer(r, d, now) {
		m.queue(m.waiting.Answered(now, r.ID), now)
		return m.take()
	}
	if _, waits := m.requests[r.ID]; !waits {
		m.log.add(r.ID, Entry{
			Time: now, Decision: d, Cause: r.Cause, Refusal: notServed(r.Model, d.Counts[route.IsFaulty]),
		})
	}
	m.requests[r.ID] = r
	m.queue(m.waiting.Ask(wake.Request{
		ID: r.ID, Model: r.Model, Class: r.Class, Arrived: r.Arrived, Deadline: r.Deadline, Bytes: 4 * len(r.Prompt),
		Limit: m.stored[r.Model].MaxWaiting,
	}, now), now)
	return m.take()
}

// decide returns the replica for a request, and why.
func (m *Machine) decide(r Request) (d route.Decision) {
	t := m.models[r.Model]
	m.saw = route.View{}
	if _, stored := m.stored[r.Model]; t != nil && (stored || m.phase == Starting) {
		request := route.Request{
			ID: r.ID, Hashes: t.fingerprints(r), Tokens: len(r.Prompt), Avoid: m.avoided(t, r.Avoid),
			Adapter: r.Adapter, Revision: r.Revision,
		}
		if m.records {
			m.saw = t.routes.View(request)
		}
		d = t.routes.Route(request)
	}
	return d
}

// Record turns on or off that decisions are reported as Decided. It changes no decision.
func (m *Machine) Record(on bool) { m.records = on }

// answer answers a request, which may wait, or reports false if it has to wait. The caller removes one that
// waited from the queue.
func (m *Machine) answer(r Request, d route.Decision, now time.Time) bool {
	a := Answer{To: r.Session, ID: r.ID}
	switch refusal, waits := m.unserved(r); {
	case d.OK:
		to := m.models[r.Model].replicas[d.Name]
		a.Routed = Routed{d.Name, to.node, to.actor, to.incarnation}
	case m.weightsReplaced(r):
		a.Refusal = weightsReplaced(r.Model)
	case waits:
		return false
	default:
		a.Refusal = refusal
	}
	if len(d.Candidates) == 0 { // a refusal, for which settle has not looked at the replicas
		d = m.decide(r)
	}
	m.log.add(r.ID, Entry{Time: now, Decision: d, Refusal: a.Refusal, Cause: r.Cause})
	m.emit(a)
	if m.records {
		m.emit(Decided{r.ID, r.Model, m.saw, d.Name, a.Refusal, r.Cause})
	}
	delete(m.requests, r.ID)
	return true
}

// serves reports whether some replica serves a request. One on standby finishes requests that have begun.
func (t *model) serves(request Request) bool {
	for _, r := range t.replicas {
		if r.state == route.Serving || r.state == route.Suspended && request.Revision != "" {
			return true
		}
	}
	return false
}

// avoided returns the replicas that serve a request only if no other can: those that its session
// lost, and those on avoided nodes.
func (m *Machine) avoided(t *model, lost []string) []string {
	if len(m.avoid) == 0 {
		return lost
	}
	all := slices.Clone(lost)
	for name, r := range t.replicas {
		if m.avoid[r.node] {
			all = append(all, name)
		}
	}
	slices.Sort(all[len(lost):])
	return all
}

// fingerprints returns the fingerprints of a prompt's blocks, as replicas announce them. Without replicas there is
// nothing to compare: sessions ask each second for requests that wait, and their prompts are not hashed each time.
func (t *model) fingerprints(r Request) []uint64 {
	if t.blockTokens == 0 || len(t.replicas) == 0 {
		return nil
	}
	return kv.Fingerprints(kv.Hashes(kv.Root(r.Model, r.Adapter, r.Salt), r.Prompt, t.blockTokens))
}

// weightsReplaced reports whether the files that computed a request's output are no longer served
// or deployed.
func (m *Machine) weightsReplaced(r Request) bool {
	t, deployed := m.models[r.Model], m.stored[r.Model].Revision
	return r.Revision != "" && deployed != "" && deployed != r.Revision && t != nil &&
		!t.routes.HasRevision(r.Revision)
}
