package testkit

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Crash makes actors panic when they receive a message of a type: it lets After messages pass and
// then panics Times times. The message is lost, as in a real crash.
type Crash struct {
	On    string // type of the message: "*messages.RunStep"
	After int64  // number of messages that pass first
	Times int64

	seen, crashed atomic.Int64
}

// Crashed returns the number of injected crashes.
func (c *Crash) Crashed() int64 { return c.crashed.Load() }

// Middleware returns next with the crash injected. All actors that share a Crash share its counts.
func (c *Crash) Middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if fmt.Sprintf("%T", env.Message) == c.On && c.seen.Add(1) > c.After && c.crashed.Add(1) <= c.Times {
			panic("testkit: injected crash on " + c.On)
		}
		next(ctx, env)
	}
}
