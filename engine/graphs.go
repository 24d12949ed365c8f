package engine

import "context"

// GraphEngine is an Engine that can capture steps as graphs, which the device launches as a whole.
type GraphEngine interface {
	Engine
	// CaptureGraphs replaces the graphs of the engine. It captures none if graphs make steps no faster on its
	// device. If it fails, the engine has no graphs and frees what they used; its steps run without graphs,
	// unless the device is lost.
	CaptureGraphs(ctx context.Context) (Graphs, error)
}

// Graphs describes the graphs of an engine.
type Graphs struct {
	Count        int
	MaxSequences int // largest step that a graph can run; 0: there are none
}

// GraphRows returns the numbers of sequences for which an engine captures its decode step: the powers of
// two below the maximum, and the maximum.
func (l Limits) GraphRows() (all []int) {
	most := min(l.MaxSequences, l.StepTokens)
	for rows := 1; rows < most; rows *= 2 {
		all = append(all, rows)
	}
	return append(all, most)
}

// CaptureGraphs captures the graphs of an engine, if it can.
func CaptureGraphs(ctx context.Context, e Engine) (Graphs, error) {
	if g, ok := e.(GraphEngine); ok {
		return g.CaptureGraphs(ctx)
	}
	return Graphs{}, nil
}
