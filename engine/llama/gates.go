package llama

import (
	"context"
	"errors"

	"troupe/engine"
)

// gates delay the layers of a step until the blocks of sequences that are still being restored
// arrive.
type gates struct {
	ctx context.Context
	all []gate
}

type gate struct {
	engine.Gate
	sequence int // index in the batch
	next     int // the first layer not passed yet
}

func newGates(ctx context.Context, batch []engine.Sequence) gates {
	g := gates{ctx: ctx}
	for i, s := range batch {
		if s.Gate != nil {
			g.all = append(g.all, gate{Gate: s.Gate, sequence: i})
		}
	}
	return g
}

// pass makes later launches wait until a layer's blocks have arrived. Earlier launches run
// meanwhile.
func (g gates) pass(l *launcher, layer int) {
	for i := range g.all {
		at := &g.all[i]
		if l.err != nil || layer < at.next {
			continue
		}
		if _, l.err = l.stream.Record(); l.err != nil { // a stream may defer work until it is waited for
			return
		}
		ready, next, err := at.Pass(g.ctx, layer)
		if err != nil {
			l.err = &engine.StepAborted{Sequence: at.sequence, Err: err}
			return
		}
		if at.next = next; ready != nil {
			l.err = l.stream.Wait(ready)
		}
	}
}

// drain waits for the launched part of an aborted step to end.
func (l *launcher) drain() error {
	var aborted *engine.StepAborted
	if errors.As(l.err, &aborted) {
		if err := l.stream.Sync(); err != nil {
			return err // a failed device takes precedence
		}
	}
	return l.err
}
