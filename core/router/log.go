package router

import (
	"time"

	"troupe/core/route"
)

const (
	loggedRequests      = 1024 // maximum number of requests in the decision log
	decisionsPerRequest = 8    // maximum number of entries per request; the newest are kept
)

// Entry is one entry of the decision log: a decision, or a migration.
type Entry struct {
	Time     time.Time
	Decision route.Decision
	Refusal  Refusal // zero: the request was routed
	Cause    string  // why it was routed, as stated by the session
	Move     *Move   // migration of the sequence; nil: the entry is a decision
}

// Move is the migration of a running sequence.
type Move struct {
	Replica, Node string // the new replica and its node
	From          string // the old replica
	Cause         string
	Blocks        int // number of KV blocks
	Reused        int // number of them that the new replica already had
	Bytes         uint64
	Pause         time.Duration
}

// Moved logs the migration of a running sequence.
func (m *Machine) Moved(request string, move Move, now time.Time) {
	m.log.add(request, Entry{Time: now, Move: &move})
}

// Explain returns the last decisions on a request, oldest first.
func (m *Machine) Explain(request string) []Entry { return m.log.byRequest[request] }

// decisionLog keeps the last decisions by request, for a bounded number of requests.
type decisionLog struct {
	byRequest map[string][]Entry
	order     []string // requests in order of arrival; a ring
	next      int
}

func newDecisionLog(requests int) decisionLog {
	return decisionLog{byRequest: make(map[string][]Entry), order: make([]string, requests)}
}

func (l *decisionLog) add(request string, e Entry) {
	all, known := l.byRequest[request]
	if !known {
		delete(l.byRequest, l.order[l.next])
		l.order[l.next] = request
		l.next = (l.next + 1) % len(l.order)
	}
	if len(all) == decisionsPerRequest {
		all = all[1:]
	}
	l.byRequest[request] = append(all, e)
}
