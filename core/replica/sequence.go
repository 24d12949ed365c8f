package replica

import (
	"time"

	"troupe/core/batch"
)

// Submit handles a sequence that a session submits, for the first time or again.
func (m *Machine) Submit(s *Submission, now time.Time) []Effect {
	return m.on(event{kind: evSubmit, submission: s, now: now})
}

func (m *Machine) refuseSubmission(e *event) { m.add(Refuse{e.submission.ID, *m.Accepting()}) }

func (m *Machine) submit(e *event) {
	s := e.submission
	if q := m.sequences[s.ID]; q != nil && m.reattach(s, q) {
		return
	}
	why := m.CheckAdapter(s.Adapter)
	if len(s.Output) > 0 && why == nil {
		why = m.CheckRevision(s.Revision)
	}
	if why != nil {
		m.add(Refuse{s.ID, *why})
		return
	}
	m.dropCanary()
	ahead, refused := m.enqueue(s.Request)
	switch {
	case refused == nil:
		m.begin(s, ahead)
	case refused.Reason == batch.Finished: // the message of an earlier Finish was lost
		m.add(Accept{ID: s.ID}, Finish{s.ID, len(s.Output)})
	default:
		m.add(Refuse{s.ID, *FromBatch(refused)})
	}
}

// begin records a sequence that the scheduler has accepted.
func (m *Machine) begin(s *Submission, ahead int) {
	m.sequences[s.ID] = &sequence{base: len(s.Output), adapter: s.Adapter.Key}
	m.add(Attach{s.ID, len(s.Output)}, Accept{s.ID, ahead})
	if s.Adapter.Key != "" {
		m.want()
		if m.lease == PoolReady {
			m.add(AdapterRequested{s.Adapter.Key})
		}
		m.batch.PrefetchAdapters()
	}
	m.add(Queued{s.ID, m.InFlight()}, Advance{})
}

// enqueue queues a request. If the queue is full, the newest request of the client with the most
// queued requests is dropped, provided that the new request is from a client with fewer.
func (m *Machine) enqueue(q batch.Request) (ahead int, refused *batch.Refusal) {
	ahead, refused = m.batch.Submit(q)
	if refused == nil || refused.Reason != batch.QueueFull {
		return ahead, refused
	}
	surplus := m.batch.QueueVictim(q)
	if surplus == "" {
		return 0, refused
	}
	m.interrupt(surplus, *FromBatch(&batch.Refusal{Reason: batch.QueueFull,
		Detail: "queue is full, and this client has the most requests in it; send fewer at once"}))
	m.drop(surplus, "its client has the most requests in a full queue")
	return m.batch.Submit(q)
}

// reattach assigns a sequence to the sender and repeats the tokens that the sender lacks. If the
// session has more output than the replica, or less than it first submitted, reattach drops the
// sequence and returns false.
func (m *Machine) reattach(s *Submission, q *sequence) bool {
	_, output, _ := m.batch.Sequence(s.ID)
	seen := len(s.Output)
	if seen > len(output) || seen < q.base {
		m.drop(s.ID, "its session submitted it again")
		return false
	}
	m.add(Claimed{s.ID}, Accept{ID: s.ID}, Reattach{s.ID, seen, output[seen:], q.cached})
	return true
}

// Cancel drops a sequence. Its blocks are freed at once, or at the end of the step in flight if
// that computes it.
func (m *Machine) Cancel(id string) []Effect {
	if !m.Has(id) {
		return nil
	}
	m.drop(id, "cancelled")
	m.reportSoon()
	m.add(Advance{})
	return m.take()
}

// Leaving reports whether the replica accepts no sequences because it is drained or preempted.
func (m *Machine) Leaving() bool { return m.leaving() }

// Requeue interrupts sequences of a replica that leaves. Their sessions continue them elsewhere.
func (m *Machine) Requeue(ids []string, why Refusal) []Effect {
	for _, id := range ids {
		if m.leaving() && m.Has(id) {
			m.departures.Requeued++
			m.interrupt(id, why)
			m.drop(id, "it is computed again elsewhere")
		}
	}
	m.reportSoon()
	m.add(Advance{})
	return m.take()
}

// Lost drops a sequence whose session has ended.
func (m *Machine) Lost(id string) []Effect {
	if m.Has(id) {
		m.drop(id, "its session has ended")
	}
	return m.take()
}

// Known is the answer to a query about a sequence.
type Known struct {
	State  string // empty: the sequence is not here
	Output int    // number of output tokens
}

// Query answers a session about its sequence.
func (m *Machine) Query(id string) (Known, []Effect) {
	if !m.Has(id) {
		return Known{}, nil
	}
	state, _ := m.batch.State(id)
	_, output, _ := m.batch.Sequence(id)
	m.add(Claimed{id})
	return Known{state.String(), len(output)}, m.take()
}

// Arrived records a sequence that has migrated here and is in the scheduler. Its session already
// has the first base tokens of the output.
func (m *Machine) Arrived(id, adapter string, base int) {
	m.sequences[id] = &sequence{base: base, adapter: adapter}
	m.totals.MigratedIn++
}

// CountMoved counts a sequence that has migrated to another replica. Remove removes the sequence.
func (m *Machine) CountMoved() {
	m.totals.MigratedOut++
	if m.leaving() {
		m.departures.Migrated++
	}
}

// Remove removes a sequence that has migrated to another replica.
func (m *Machine) Remove(id string) {
	m.batch.Drop(id)
	delete(m.sequences, id)
}

// interrupt ends a sequence on this replica. Its session may continue it elsewhere.
func (m *Machine) interrupt(id string, why Refusal) {
	if m.Has(id) {
		m.add(Interrupt{id, why})
	}
}

// drop removes a sequence.
func (m *Machine) drop(id, why string) {
	m.Remove(id)
	m.add(Drop{id, why})
}
