package llama

import (
	"context"
	"errors"
	"fmt"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/engine"
)

// GraphMode is when an engine captures its decode steps as graphs. The results are bit-identical with and without
// graphs.
type GraphMode int

// The modes.
const (
	FastGraphs GraphMode = iota // on devices on which they are a gain: cuda.Info.Graphs
	AllGraphs                   // on all devices that can capture
	NoGraphs
)

// graphs are the captured decode steps of an engine: one graph for each number of rows, a power of two
// or the maximum, and one more if the engine can have adapters. See doc.go.
type graphs struct {
	rows  []int // of the graphs, ascending
	plain []cuda.Graph
	lora  []cuda.Graph // for batches with adapters; empty: such steps run without a graph
}

// find returns the graph for a batch, and its number of rows. It is nil unless each sequence decodes
// one token and waits for no block.
func (g *graphs) find(batch []engine.Sequence) (graph cuda.Graph, rows int) {
	family := g.plain
	for _, s := range batch {
		if len(s.Tokens) != 1 || !s.Sample || s.Gate != nil {
			return nil, 0
		}
		if s.Adapter != nil {
			family = g.lora
		}
	}
	for i, graph := range family {
		if len(batch) > 0 && len(batch) <= g.rows[i] {
			return graph, g.rows[i]
		}
	}
	return nil, 0
}

func (g *graphs) close() error {
	var errs []error
	for _, family := range [][]cuda.Graph{g.plain, g.lora} {
		for _, graph := range family {
			errs = append(errs, graph.Close())
		}
	}
	*g = graphs{}
	return errors.Join(errs...)
}

// CaptureGraphs implements engine.GraphEngine.
func (e *llamaEngine) CaptureGraphs(ctx context.Context) (engine.Graphs, error) {
	if err := e.graphs.close(); err != nil {
		return engine.Graphs{}, err
	}
	stream, err := cuda.As[cuda.Capturer](e.stream)
	if err != nil || !e.wantsGraphs() {
		return engine.Graphs{}, nil
	}
	if err := e.captureAll(ctx, stream); err != nil {
		err = errors.Join(err, e.graphs.close(), e.resetStream())
		if errors.Is(err, errors.ErrUnsupported) {
			return engine.Graphs{}, nil
		}
		return engine.Graphs{}, fmt.Errorf("llama: capturing the decode steps: %w", err)
	}
	count := len(e.graphs.plain) + len(e.graphs.lora)
	return engine.Graphs{Count: count, MaxSequences: e.graphs.rows[len(e.graphs.rows)-1]}, nil
}

func (e *llamaEngine) wantsGraphs() bool {
	return e.graphMode == AllGraphs || e.graphMode == FastGraphs && e.device.Info().Graphs
}

func (e *llamaEngine) captureAll(ctx context.Context, stream cuda.Capturer) error {
	e.graphs.rows = e.limits.GraphRows()
	families := []*[]cuda.Graph{&e.graphs.plain}
	if e.adapters != nil && e.adapters.mode == Batched {
		families = append(families, &e.graphs.lora)
	}
	for _, rows := range e.graphs.rows {
		for _, family := range families {
			if err := ctx.Err(); err != nil {
				return err
			}
			graph, err := e.capture(stream, rows, family == &e.graphs.lora)
			if err != nil {
				return err
			}
			*family = append(*family, graph)
		}
	}
	return nil
}

// graphOps returns the number of operations in the graph of a decode step, without adapters and with any
// of them.
func (c Config) graphOps() (plain, adapters int) {
	layer := 2 + int(lora.Targets) + 2 + 3 // norms, projections, Rope of Q and K; StoreKV, Attention, SiluMul
	if c.QKNorm {
		layer += 2
	}
	plain = 1 + c.Layers*layer + 3 // Embed; GatherRows, norm and head
	return plain, plain + c.matrices()
}

// capture captures a decode step of the given number of rows. The step runs once before, with nothing
// but padding: so the stream allocates its memory, and the driver loads the kernels, before the
// capture.
func (e *llamaEngine) capture(stream cuda.Capturer, rows int, adapters bool) (cuda.Graph, error) {
	in := e.input(nil, counts{rows, rows, rows})
	if adapters {
		in.adapterRuns, in.anyAdapter = []rowRun{{n: rows}}, true
	}
	if err := e.forward(in); err != nil {
		return nil, err
	}
	return stream.Capture(func() error {
		l := &launcher{stream: e.stream}
		e.launch(l, in)
		return l.err
	})
}

// replay computes the logits of a step by a graph and waits for the first samples.
func (e *llamaEngine) replay(graph cuda.Graph, in input, samples int) error {
	if err := e.copyInput(in); err != nil {
		return err
	}
	if err := graph.Launch(e.stream); err != nil {
		return err
	}
	return e.copyLogits(samples)
}

// resetStream replaces the stream, which may have a fault. The new one has no memory yet.
func (e *llamaEngine) resetStream() error {
	err := e.stream.Close()
	fresh, opened := e.device.NewStream("step")
	if opened == nil {
		e.stream = fresh
	}
	return errors.Join(err, opened)
}
