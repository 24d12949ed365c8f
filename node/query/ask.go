package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/messages"
)

const (
	// Retry is the time after which an unanswered query is sent again. It doubles each time.
	// Queries are repeated because an actor that is restarting, or that crashes on a message, loses
	// it.
	Retry = 200 * time.Millisecond
	// Timeout is the total time for which a query is retried.
	Timeout = 10 * time.Second
)

// Local returns the address of an actor of this node.
func Local(sys *actor.ActorSystem, id string) *actor.PID { return actor.NewPID(sys.Address(), id) }

// Ask sends a query to an actor of this node and waits for the answer.
func Ask[T any](ctx context.Context, sys *actor.ActorSystem, id string, query proto.Message) (T, error) {
	return At[T](ctx, sys, Local(sys, id), query)
}

// At sends a query to an actor on any node and waits for the answer.
func At[T any](ctx context.Context, sys *actor.ActorSystem, to *actor.PID, query proto.Message) (T, error) {
	return Within[T](ctx, sys, to, query, Retry, Timeout)
}

// Within is like At, but it first retries after first, and gives up after most.
func Within[T any](ctx context.Context, sys *actor.ActorSystem, to *actor.PID, query proto.Message,
	first, most time.Duration) (answer T, err error) {
	ctx, cancel := supervise.RuntimeOf(sys).WithTimeout(ctx, most)
	defer cancel()
	var got any
	for within := first; ; within *= 2 {
		got, err = supervise.Request(sys.Root, to, query, within).Result()
		if !errors.Is(err, actor.ErrTimeout) {
			break
		}
		if ctx.Err() != nil {
			return answer, fmt.Errorf("%s at %s does not answer: %w", to.GetId(), to.GetAddress(), ctx.Err())
		}
	}
	if errors.Is(err, actor.ErrDeadLetter) && to.GetAddress() != sys.Address() {
		return answer, control.Refuse(messages.Reason_REASON_NODE_LOST,
			fmt.Sprintf("%s: its node at %s has left the cluster", to.GetId(), to.GetAddress()))
	}
	if err != nil {
		return answer, err
	}
	if refused, ok := got.(*messages.Refused); ok {
		return answer, control.Refusal{Refused: refused}
	}
	answer, ok := got.(T)
	if !ok {
		return answer, fmt.Errorf("%s answered %T with %T", to.GetId(), query, got)
	}
	return answer, nil
}

// Outcome returns the result of a command, or its refusal as an error.
func Outcome[T any](done T, refused *messages.Refused, err error) (T, error) {
	if err == nil && refused != nil {
		err = control.Refusal{Refused: refused}
	}
	return done, err
}
