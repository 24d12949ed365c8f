package node_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
	"troupe/node"
)

// gate holds an engine's steps back, so that what happens between two of them surely does.
type gate struct {
	free   atomic.Int64 // steps that pass yet
	closed atomic.Bool  // one has come that does not
	pass   chan struct{}
	once   sync.Once
}

// gated starts a node whose engine runs so many steps, and no other before the gate is told.
func gated(t *testing.T, steps int64, change ...func(*node.Config)) (*node.Node, *gate) {
	t.Helper()
	g := &gate{pass: make(chan struct{})}
	g.free.Store(steps)
	n := start(t, func(c *node.Config) {
		for _, f := range change {
			f(c)
		}
		inner := c.Middleware
		c.Middleware = func(kind string) (all []actor.ReceiverMiddleware) {
			if kind == "engine" {
				all = append(all, g.middleware)
			}
			if inner != nil {
				all = append(all, inner(kind)...)
			}
			return all
		}
	})
	t.Cleanup(g.open) // before the node is told to stop
	return n, g
}

func (g *gate) middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if _, ok := env.Message.(*messages.RunStep); ok && g.free.Add(-1) < 0 {
			g.closed.Store(true)
			<-g.pass
		}
		next(ctx, env)
	}
}

// await waits until a step is held back.
func (g *gate) await(t *testing.T) {
	t.Helper()
	until(t, "a step at the gate", g.closed.Load)
}

// one lets the step go on that is held back, and none after it.
func (g *gate) one() { g.pass <- struct{}{} }

// open lets all go on.
func (g *gate) open() { g.once.Do(func() { close(g.pass) }) }
