package testkit

import (
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// Wire gives an actor a private copy of every message, as if it had crossed the network. It panics
// on a message that could not.
func Wire(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		switch m := env.Message.(type) {
		case actor.SystemMessage, actor.AutoReceiveMessage, *actor.ReceiveTimeout, *actor.DeadLetterResponse:
		case proto.Message:
			env = &actor.MessageEnvelope{Header: env.Header, Message: proto.Clone(m), Sender: env.Sender}
		default:
			if !isNote(m) {
				panic(fmt.Sprintf("testkit: %T is not a protobuf message", m))
			}
		}
		next(ctx, env)
	}
}

// isNote reports whether m has an unexported type, as messages of an actor to itself have.
func isNote(m any) bool {
	name := fmt.Sprintf("%T", m)
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name != "" && name[0] >= 'a' && name[0] <= 'z'
}
