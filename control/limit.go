package control

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// encodeWithin is like Encode, but leaves out what makes the answer longer than limit bytes, if the answer can
// say so. Other answers that are too long are an error.
func encodeWithin(answer proto.Message, limit int) ([]byte, error) {
	body, err := Encode(answer)
	if err != nil || len(body) <= limit {
		return body, err
	}
	if plan, ok := answer.(*messages.PlanResponse); ok && len(plan.GetPlan().GetModels()) > 0 {
		short, err := shortenPlan(plan.GetPlan(), len(body)-limit)
		if err != nil {
			return nil, err
		}
		if body, err = Encode(&messages.PlanResponse{Plan: short}); err != nil || len(body) <= limit {
			return body, err
		}
	}
	return nil, fmt.Errorf("the answer has %d bytes, and the NATS server accepts %d in one message; "+
		"ask for less, or raise max_payload in the configuration of the server", len(body), limit)
}

// shortenPlan returns a copy of a plan without the last models, and their replicas, that have at least excess
// bytes as JSON. Models that change or lack replicas are left out last.
func shortenPlan(plan *messages.PlanReport, excess int) (*messages.PlanReport, error) {
	changes, size := make(map[string]bool), make(map[string]int)
	for _, w := range plan.GetWrites() {
		changes[w.GetModel()] = true
	}
	for _, d := range plan.GetDepartures() {
		changes[d.GetModel()] = true
	}
	measure := func(model string, part proto.Message) error {
		text, err := Encode(part)
		size[model] += len(text) + len(",")
		return err
	}
	for _, r := range plan.GetReplicas() {
		if err := measure(r.GetModel(), r); err != nil {
			return nil, err
		}
	}
	for _, m := range plan.GetModels() {
		if err := measure(m.GetName(), m); err != nil {
			return nil, err
		}
		if m.GetMissing() > 0 {
			changes[m.GetName()] = true
		}
	}
	const digits = 10 // that left_out may have
	left := make(map[string]bool)
	for _, also := range []bool{false, true} {
		for _, m := range slices.Backward(plan.GetModels()) {
			if excess+digits <= 0 {
				break
			}
			if name := m.GetName(); changes[name] == also {
				left[name], excess = true, excess-size[name]
			}
		}
	}
	short := &messages.PlanReport{}
	proto.Merge(short, plan)
	short.LeftOut = uint32(len(left))
	short.Models = slices.DeleteFunc(short.GetModels(), func(m *messages.ModelPlan) bool { return left[m.GetName()] })
	short.Replicas = slices.DeleteFunc(short.GetReplicas(), func(r *messages.PlannedReplica) bool {
		return left[r.GetModel()]
	})
	return short, nil
}
