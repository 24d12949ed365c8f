package dst

import (
	"context"

	"troupe/engine"
)

// captureCounts counts the captures of a node.
type captureCounts struct{ done, failed, hung uint64 }

// CaptureGraphs implements engine.GraphEngine. It takes no time without a fault, and steps are the same
// with and without a graph.
func (e *simulatedEngine) CaptureGraphs(ctx context.Context) (engine.Graphs, error) {
	f := e.weights.loader.faults
	if f.pending(&f.hangCaptures) {
		f.change(func() { f.captures.hung++ })
		if err := f.wait(ctx, 0, &f.hangCaptures); err != nil {
			return engine.Graphs{}, err
		}
	}
	if f.take(&f.failCaptures) {
		f.change(func() { f.captures.failed++ })
		return engine.Graphs{}, errCapture
	}
	f.change(func() { f.captures.done++ })
	return engine.Graphs{Count: 1, MaxSequences: maxSequences}, nil
}

// pending reports whether a step, load or capture that begins now would hang.
func (f *engineFaults) pending(hangs *[]*hang) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(*hangs) > 0
}
