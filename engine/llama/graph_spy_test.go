package llama_test

import (
	"context"
	"testing"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
)

// graphSpy is a device that counts captures, launches of graphs and launches of kernels outside graphs.
type graphSpy struct {
	cuda.Device
	cuda.VirtualMemory
	captured, open, replayed, kernels int
	capturing                         bool
	ops                               []int                   // operations in each capture
	refuse                            func(capture int) error // makes a capture fail; nil: none
}

func newGraphSpy(t testing.TB, config host.Config) *graphSpy {
	t.Helper()
	config.MemoryBytes = 1 << 30
	device, err := host.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return &graphSpy{Device: device, VirtualMemory: device.(cuda.VirtualMemory)}
}

func (s *graphSpy) NewStream(name string) (cuda.Stream, error) {
	stream, err := s.Device.NewStream(name)
	return spiedStream{stream, s}, err
}

type spiedStream struct {
	cuda.Stream
	spy *graphSpy
}

func (s spiedStream) Launch(op cuda.Op) error {
	if s.spy.capturing {
		s.spy.ops[len(s.spy.ops)-1]++
	} else {
		s.spy.kernels++
	}
	return s.Stream.Launch(op)
}

func (s spiedStream) Capture(give func() error) (cuda.Graph, error) {
	s.spy.capturing, s.spy.ops = true, append(s.spy.ops, 0)
	defer func() { s.spy.capturing = false }()
	graph, err := s.Stream.(cuda.Capturer).Capture(func() error {
		err := give()
		if err == nil && s.spy.refuse != nil {
			err = s.spy.refuse(s.spy.captured)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.spy.captured++
	s.spy.open++
	return spiedGraph{graph, s.spy}, nil
}

type spiedGraph struct {
	cuda.Graph
	spy *graphSpy
}

func (g spiedGraph) Launch(on cuda.Stream) error {
	g.spy.replayed++
	return g.Graph.Launch(on.(spiedStream).Stream)
}

func (g spiedGraph) Close() error {
	g.spy.open--
	return g.Graph.Close()
}

// graphReplica is a replica of the shipped model with a choice of graphs.
type graphReplica struct {
	*testReplica
	spy *graphSpy
}

func newGraphReplica(t testing.TB, mode llama.GraphMode, config host.Config, blocks int) *graphReplica {
	t.Helper()
	spy := newGraphSpy(t, config)
	return &graphReplica{newReplicaWith(t, spy, llama.Loader{Graphs: mode}, blocks), spy}
}

func (r *graphReplica) capture(t testing.TB) engine.Graphs {
	t.Helper()
	graphs, err := engine.CaptureGraphs(t.Context(), r.engine)
	if err != nil {
		t.Fatal(err)
	}
	return graphs
}

// stepAll runs one step with the next tokens of the given generations.
func stepAll(t testing.TB, e engine.Engine, chunk int, gs ...*generation) {
	t.Helper()
	var batch []engine.Sequence
	for _, g := range gs {
		batch = append(batch, g.next(chunk))
	}
	tokens, err := e.Step(context.Background(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range gs {
		tokens = g.advance(batch[i], tokens)
	}
}

// sameTokens compares the tokens of two runs and their whole distributions.
func sameTokens(t testing.TB, what string, got, want []sample.Token) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d tokens with graphs, %d without", what, len(got), len(want))
	}
	for i := range got {
		if got[i].ID != want[i].ID || len(got[i].Top) != vocab || len(want[i].Top) != vocab {
			t.Fatalf("%s, token %d: %d with graphs, %d without", what, i, got[i].ID, want[i].ID)
		}
		for j := range got[i].Top {
			if got[i].Top[j] != want[i].Top[j] {
				t.Fatalf("%s, token %d: logprob %d is %v with graphs, %v without", what, i, j, got[i].Top[j],
					want[i].Top[j])
			}
		}
	}
}

// vocab is the vocabulary of the shipped model. A logprob of each token shows each logit.
const vocab = 1024
