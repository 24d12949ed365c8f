package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
)

// routesTimeout is the maximum wait for the router to learn of the replicas of other nodes. It is
// longer than the detection of a dead node takes.
const routesTimeout = 2 * time.Second

// signals are one-time notifications between the parts of a node.
type signals struct {
	routesKnown chan struct{} // closed when the router knows the replicas of the other nodes
	informed    chan struct{} // closed when this node may answer for the cluster
	serving     chan struct{} // closed when the control service accepts requests
	leaving     chan struct{} // closed when the other nodes handle the requests over NATS
}

func newSignals() signals {
	return signals{
		routesKnown: make(chan struct{}), informed: make(chan struct{}),
		serving: make(chan struct{}), leaving: make(chan struct{}),
	}
}

// once returns a function that closes a channel on its first call.
func once(c chan struct{}) func() { return sync.OnceFunc(func() { close(c) }) }

// awaitRoutes waits until the router knows the replicas of the other nodes. It gives up after
// routesTimeout, since a node may be down or unreachable.
func (s signals) awaitRoutes(ctx context.Context, rt supervise.Runtime, log zerolog.Logger) error {
	defer close(s.informed)
	select {
	case <-s.routesKnown:
	case <-rt.After(routesTimeout):
		log.Warn().Msg("not all other nodes have reported their replicas; serving commands without them")
	case <-ctx.Done():
		return fmt.Errorf("waiting for the replicas of other nodes: %w", ctx.Err())
	}
	return nil
}

// awaitControl waits until the control service accepts requests, so that a client that sees that
// the node is up can call it.
func (s signals) awaitControl(ctx context.Context) error {
	select {
	case <-s.serving:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("control service: %w", ctx.Err())
	}
}
