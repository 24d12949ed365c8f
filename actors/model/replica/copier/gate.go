package copier

import (
	"context"
	"time"

	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/engine/kvstore"
)

// timedGate is a gate whose timeout covers all its passes together.
type timedGate struct {
	layers  *kvstore.LayerRestore
	runtime supervise.Runtime
	left    time.Duration
}

// Pass implements engine.Gate.
func (g *timedGate) Pass(ctx context.Context, layer int) (cuda.Event, int, error) {
	began := g.runtime.Now()
	waiting, end := g.runtime.WithTimeout(ctx, g.left)
	defer end()
	ready, next, err := g.layers.Pass(waiting, layer)
	g.left -= g.runtime.Now().Sub(began)
	return ready, next, err
}
