package testkit

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Crash makes actors panic when they are about to receive a message of a type, from the one numbered After on, Times times.
// The message is lost, as it is in a real crash.
type Crash struct {
	On    string // type of the message: "*messages.RunStep"
	After int64  // messages of the type that are let through first
	Times int64

	seen, crashed atomic.Int64
}

// Crashed is how often it did.
func (c *Crash) Crashed() int64 { return c.crashed.Load() }

// Middleware is the crash as a part of an actor's props. All actors that share it share its counts.
func (c *Crash) Middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if fmt.Sprintf("%T", env.Message) == c.On && c.seen.Add(1) > c.After && c.crashed.Add(1) <= c.Times {
			panic("testkit: injected crash on " + c.On)
		}
		next(ctx, env)
	}
}
