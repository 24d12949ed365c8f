package node_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
	"troupe/node"
)

// stepGate blocks an engine's steps, so that a test can act between two of them.
type stepGate struct {
	free   atomic.Int64 // steps that may still pass
	closed atomic.Bool  // a step is or was blocked
	held   chan struct{}
	once   sync.Once
}

// startGated starts a node whose engine runs the given number of steps and then waits for the gate.
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
	t.Cleanup(g.open) // before the node stops
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

// await waits until a step is blocked.
func (g *stepGate) await(t *testing.T) {
	t.Helper()
	waitFor(t, "a step at the gate", g.closed.Load)
}

// passOne lets one blocked step pass.
func (g *stepGate) passOne() { g.held <- struct{}{} }

// open lets all steps pass.
func (g *stepGate) open() { g.once.Do(func() { close(g.held) }) }
