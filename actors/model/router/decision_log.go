package router

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/core/route"
	"troupe/messages"
)

// decisionLog keeps the last decisions by request, for a bounded number of requests.
type decisionLog struct {
	byRequest map[string][]logEntry
	order     []string // requests by arrival; a ring
	next      int
}

// logEntry is one decision. It is formatted only when it is requested.
type logEntry struct {
	time     time.Time
	decision route.Decision
	refused  *messages.Refused
	cause    string                  // as stated by the session
	moved    *messages.SequenceMoved // not a decision: the sequence migrated
}

// decisionsPerRequest is the number of decisions kept per request, the newest ones.
const decisionsPerRequest = 8

func newDecisionLog(requests int) decisionLog {
	return decisionLog{byRequest: make(map[string][]logEntry), order: make([]string, requests)}
}

func (m *decisionLog) add(request string, r logEntry) {
	all, known := m.byRequest[request]
	if !known {
		delete(m.byRequest, m.order[m.next])
		m.order[m.next] = request
		m.next = (m.next + 1) % len(m.order)
	}
	if len(all) == decisionsPerRequest {
		all = all[1:]
	}
	m.byRequest[request] = append(all, r)
}

// explain formats the decisions on a request.
func (m *decisionLog) explain(request, node string) *messages.Explanation {
	e := &messages.Explanation{RequestId: request}
	for _, r := range m.byRequest[request] {
		if r.moved != nil {
			e.Decisions = append(e.Decisions, migrationDecision(r.moved, r.time, node))
			continue
		}
		d := &messages.RouteDecision{Time: timestamppb.New(r.time), Router: node, Replica: r.decision.Name,
			Why: r.decision.Why(), Refused: r.refused, Cause: r.cause}
		for _, c := range r.decision.Candidates {
			d.Candidates = append(d.Candidates, &messages.RouteCandidate{
				Replica: c.Name, Node: c.Node, Cost: float64(c.Cost), PrefillTokens: uint32(c.Prefill),
				CachedTokens: uint32(c.Cached),
				Running:      uint32(c.Running), Waiting: uint32(c.Waiting), Excluded: c.Excluded.String(),
				Adapter: locations[c.Adapter],
			})
		}
		e.Decisions = append(e.Decisions, d)
	}
	return e
}

// migrationDecision formats the migration of a running sequence.
func migrationDecision(m *messages.SequenceMoved, at time.Time, node string) *messages.RouteDecision {
	how := m.GetReport()
	pause := time.Duration(how.GetPauseSeconds() * float64(time.Second)).Round(time.Microsecond)
	return &messages.RouteDecision{Time: timestamppb.New(at), Router: node, Replica: m.GetReplica(),
		Cause: m.GetCause(), Why: fmt.Sprintf(
			"%s on %s: migrated from %s with %d KV blocks, %d of them already there; %d bytes sent, paused for %s",
			m.GetReplica(), m.GetNode(), m.GetFrom(), how.GetBlocks(), how.GetReusedBlocks(), how.GetBytes(), pause)}
}

var locations = map[route.Residence]messages.AdapterLocation{
	route.OnDisk: messages.AdapterLocation_ADAPTER_LOCATION_DISK,
	route.InDRAM: messages.AdapterLocation_ADAPTER_LOCATION_DRAM,
	route.OnGPU:  messages.AdapterLocation_ADAPTER_LOCATION_GPU,
}
