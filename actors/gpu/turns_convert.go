package gpu

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/turns"
	"troupe/messages"
)

// turnOf converts a request for a turn.
func turnOf(msg *messages.RequestTurn) turns.Request {
	r := turns.Request{Class: turns.Class(msg.GetClass()), Estimate: msg.GetEstimate().AsDuration(),
		Prompt: msg.GetPrompt(), Weight: msg.GetWeight()}
	if at := msg.GetDeadline(); at != nil {
		r.Deadline = at.AsTime()
	}
	return r
}

// grantedTurn converts the grant of a turn to an incarnation of a replica.
func grantedTurn(e turns.Grant, started uint64) *messages.TurnGranted {
	return &messages.TurnGranted{Replica: e.Replica, Started: started, Number: e.Turn, Open: e.Open,
		Waited: durationpb.New(e.Waited)}
}

func overdueTurn(device string, e turns.ReportOverdue) *messages.ReplicaOverdue {
	return &messages.ReplicaOverdue{Replica: e.Replica, Gpu: device, Number: e.Turn,
		Lasted: durationpb.New(e.Lasted), Estimate: durationpb.New(e.Expectation)}
}
