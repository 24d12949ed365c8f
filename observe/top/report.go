package top

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// Report is the screen's content for programs: nodes and models as the control service returns
// them, and rates by name.
type Report struct {
	Time     time.Time         `json:"time"`
	Nodes    []json.RawMessage `json:"nodes"`
	Models   []json.RawMessage `json:"models"`
	NodeRate map[string]Rate   `json:"node_tokens_per_second"`
	Rate     map[string]Rate   `json:"replica_tokens_per_second"`
	Store    json.RawMessage   `json:"store,omitempty"` // why changes are refused
	Error    string            `json:"error,omitempty"` // why a part is missing
}

// Report returns the screen's content.
func (m Model) Report() (Report, error) {
	r := ratesBetween(m.before, m.now)
	report := Report{Time: m.now.Time, NodeRate: r.nodes, Rate: r.replicas}
	if m.now.Err != nil {
		report.Error = m.now.Err.Error()
	}
	var err error
	if report.Nodes, err = marshalAll(m.now.Nodes); err == nil {
		report.Models, err = marshalAll(m.now.Models)
	}
	if err == nil && m.now.Store != nil {
		var store []json.RawMessage
		if store, err = marshalAll([]*messages.Refused{m.now.Store}); err == nil {
			report.Store = store[0]
		}
	}
	return report, err
}

func marshalAll[M proto.Message](all []M) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(all)) // not nil: an empty list is encoded as []
	for i, m := range all {
		b, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}
