package llama

import (
	"context"
	"errors"

	"troupe/engine"
)

// gates are what a step has to pass: the blocks that some of its sequences read are still on their way.
type gates struct {
	ctx context.Context
	all []gate
}

type gate struct {
	engine.Gate
	sequence int // of the batch
	next     int // the first layer that it was not passed for
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

// pass makes what is launched from now on wait until a layer's blocks are there. What was launched before runs meanwhile.
func (g gates) pass(l *launcher, layer int) {
	for i := range g.all {
		at := &g.all[i]
		if l.err != nil || layer < at.next {
			continue
		}
		if _, l.err = l.stream.Record(); l.err != nil { // streams may hold work back until somebody waits
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

// settle waits until nothing runs any more of a step that is void.
func (l *launcher) drain() error {
	var void *engine.StepAborted
	if errors.As(l.err, &void) {
		if err := l.stream.Sync(); err != nil {
			return err // which is worse
		}
	}
	return l.err
}
