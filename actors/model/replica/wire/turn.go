package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/core/replica"
	"troupe/core/turns"
	"troupe/messages"
)

// Turns converts the messages about turns of an incarnation of a replica.
type Turns struct {
	Replica string
	Started uint64 // start of the incarnation, in nanoseconds
}

// Request converts a request for a turn.
func (t Turns) Request(r turns.Request) *messages.RequestTurn {
	msg := &messages.RequestTurn{Replica: t.Replica, Started: t.Started, Class: messages.PriorityClass(r.Class),
		Estimate: durationpb.New(r.Estimate), Prompt: r.Prompt, Weight: r.Weight}
	if !r.Deadline.IsZero() {
		msg.Deadline = timestamppb.New(r.Deadline)
	}
	return msg
}

// Ended converts the end of a turn.
func (t Turns) Ended(e replica.EndTurn) *messages.TurnEnded {
	msg := &messages.TurnEnded{Replica: t.Replica, Started: t.Started, Number: e.Turn, Used: durationpb.New(e.Used)}
	if e.Next != nil {
		msg.Next = t.Request(*e.Next)
	}
	return msg
}
