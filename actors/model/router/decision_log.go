package router

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/core/route"
	"troupe/messages"
)

// memory keeps the last decisions, by request. Its size is bounded.
type decisionLog struct {
	byRequest map[string][]logEntry
	order     []string // of requests, as they came; a ring
	next      int
}

// record is one decision. It is put into words when somebody asks.
type logEntry struct {
	time     time.Time
	decision route.Decision
	refused  *messages.Refused
	cause    string                  // of the question
	moved    *messages.SequenceMoved // it was none: the sequence was handed over
}

// decisionsPerRequest is how many decisions of one request are kept: the newest.
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

// explain puts the decisions on a request into words.
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

// handed puts into words that a running sequence was handed over to another replica.
func migrationDecision(m *messages.SequenceMoved, at time.Time, node string) *messages.RouteDecision {
	how := m.GetReport()
	pause := time.Duration(how.GetPauseSeconds() * float64(time.Second)).Round(time.Microsecond)
	return &messages.RouteDecision{Time: timestamppb.New(at), Router: node, Replica: m.GetReplica(),
		Cause: m.GetCause(), Why: fmt.Sprintf(
			"%s on %s: it was running on %s, which handed it over with its %d KV blocks, %d of which were there; %d bytes were sent, and it paused for %s",
			m.GetReplica(), m.GetNode(), m.GetFrom(), how.GetBlocks(), how.GetReusedBlocks(), how.GetBytes(), pause)}
}

var locations = map[route.Residence]messages.AdapterLocation{
	route.OnDisk: messages.AdapterLocation_ADAPTER_LOCATION_DISK,
	route.InDRAM: messages.AdapterLocation_ADAPTER_LOCATION_DRAM,
	route.OnGPU:  messages.AdapterLocation_ADAPTER_LOCATION_GPU,
}
