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
type stepGate struct {
	free   atomic.Int64 // steps that pass yet
	closed atomic.Bool  // one has come that does not
	held   chan struct{}
	once   sync.Once
}

// gated starts a node whose engine runs so many steps, and no other before the gate is told.
func startGated(t *testing.T, steps int64, change ...func(*node.Config)) (*node.Node, *stepGate) {
	t.Helper()
	g := &stepGate{held: make(chan struct{})}
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

func (g *stepGate) middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
		if _, ok := env.Message.(*messages.RunStep); ok && g.free.Add(-1) < 0 {
			g.closed.Store(true)
			<-g.held
		}
		next(ctx, env)
	}
}

// await waits until a step is held back.
func (g *stepGate) await(t *testing.T) {
	t.Helper()
	waitFor(t, "a step at the gate", g.closed.Load)
}

// one lets the step go on that is held back, and none after it.
func (g *stepGate) passOne() { g.held <- struct{}{} }

// open lets all go on.
func (g *stepGate) open() { g.once.Do(func() { close(g.held) }) }
