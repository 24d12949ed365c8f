package router

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/core/route"
	core "troupe/core/router"
	"troupe/messages"
)

// explanation formats the decisions on a request.
func (r *router) explanation(request string) *messages.Explanation {
	e := &messages.Explanation{RequestId: request}
	for _, entry := range r.machine.Explain(request) {
		if entry.Move != nil {
			e.Decisions = append(e.Decisions, migrationDecision(entry, r.Node))
		} else {
			e.Decisions = append(e.Decisions, routeDecision(entry, r.Node))
		}
	}
	return e
}

// routeDecision formats the choice of a replica.
func routeDecision(e core.Entry, node string) *messages.RouteDecision {
	d := &messages.RouteDecision{
		Time: timestamppb.New(e.Time), Router: node, Replica: e.Decision.Name, Why: e.Decision.Why(),
		Refused: refused(e.Refusal), Cause: e.Cause,
	}
	for _, c := range e.Decision.Candidates {
		d.Candidates = append(d.Candidates, &messages.RouteCandidate{
			Replica: c.Name, Node: c.Node, Cost: float64(c.Cost), PrefillTokens: uint32(c.Prefill),
			CachedTokens: uint32(c.Cached),
			Running:      uint32(c.Running), Waiting: uint32(c.Waiting), Excluded: c.Excluded.String(),
			Adapter: locations[c.Adapter],
		})
	}
	return d
}

// migrationDecision formats the migration of a running sequence.
func migrationDecision(e core.Entry, node string) *messages.RouteDecision {
	m := e.Move
	return &messages.RouteDecision{Time: timestamppb.New(e.Time), Router: node, Replica: m.Replica,
		Cause: m.Cause, Why: fmt.Sprintf(
			"%s on %s: migrated from %s with %d KV blocks, %d of them already there; %d bytes sent, paused for %s",
			m.Replica, m.Node, m.From, m.Blocks, m.Reused, m.Bytes, m.Pause.Round(time.Microsecond))}
}

var locations = map[route.Residence]messages.AdapterLocation{
	route.OnDisk: messages.AdapterLocation_ADAPTER_LOCATION_DISK,
	route.InDRAM: messages.AdapterLocation_ADAPTER_LOCATION_DRAM,
	route.OnGPU:  messages.AdapterLocation_ADAPTER_LOCATION_GPU,
}
