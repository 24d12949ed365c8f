package llama_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit"
)

const blockTokens = 16

var limits = engine.Limits{StepTokens: 256, MaxSequences: 16, MaxAdapters: 4, MaxRank: 16}

// open loads a model on its own software device and opens an engine with the given number of
// blocks.
func open(t testing.TB, path string, blocks int) engine.Engine {
	t.Helper()
	e, _ := openDevice(t, path, blocks)
	return e
}

func openDevice(t testing.TB, path string, blocks int) (engine.Engine, cuda.Device) {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return openOn(t, device, path, blocks), device
}

// openOn opens an engine on a device, and closes the device after the test.
func openOn(t testing.TB, device cuda.Device, path string, blocks int) engine.Engine {
	t.Helper()
	return openWith(t, device, llama.Loader{}, path, blocks)
}

func openWith(t testing.TB, device cuda.Device, loader llama.Loader, path string, blocks int) engine.Engine {
	t.Helper()
	store := residency.NewStore(device, loader)
	if _, err := store.Load(context.Background(), engine.LoadSpec{
		Lease: "test", Path: path, BlockTokens: blockTokens, KVBlocks: blocks, Limits: limits,
	}); err != nil {
		t.Fatal(err)
	}
	e, err := store.Open("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.Close()
		if _, err := store.Unload("test"); err != nil {
			t.Error(err)
		}
		if free, total := device.Memory(); free != total {
			t.Errorf("%d bytes of device memory are left behind", total-free)
		}
		_ = device.Close()
	})
	return e
}

// generation is a sequence of a test: its prompt, sampling parameters and output.
type generation struct {
	prompt  []uint32
	params  sample.Params
	want    int // tokens
	blocks  []int32
	adapter *engine.Adapter

	output   []uint32
	tokens   []sample.Token
	computed int
}

func (g *generation) all() []uint32 { return slices.Concat(g.prompt, g.output) }
func (g *generation) done() bool    { return len(g.output) == g.want }

// next returns the generation's part of a step with at most n tokens.
func (g *generation) next(n int) engine.Sequence {
	all := g.all()
	end := min(len(all), g.computed+n)
	return engine.Sequence{
		Tokens: all[g.computed:end], Position: g.computed, Blocks: g.blocks, Sample: end == len(all),
		Sampling: g.params, Adapter: g.adapter,
		Prompt: g.prompt, Output: g.output,
	}
}

func (g *generation) advance(s engine.Sequence, tokens []sample.Token) []sample.Token {
	g.computed += len(s.Tokens)
	if s.Sample {
		g.tokens = append(g.tokens, tokens[0])
		g.output = append(g.output, tokens[0].ID)
		return tokens[1:]
	}
	return tokens
}

// runAlone runs one generation in a batch of its own, with its prompt in one chunk.
func runAlone(t testing.TB, e engine.Engine, g *generation) {
	t.Helper()
	for !g.done() {
		s := g.next(limits.StepTokens)
		tokens, err := e.Step(context.Background(), []engine.Sequence{s})
		if err != nil {
			t.Fatal(err)
		}
		g.advance(s, tokens)
	}
}

// assignBlocks gives each generation its own blocks, in random order, and returns their
// number.
func assignBlocks(r *rand.Rand, gs []*generation) (blocks int) {
	for _, g := range gs {
		blocks += (len(g.prompt) + g.want + blockTokens - 1) / blockTokens
	}
	order := r.Perm(blocks)
	for _, g := range gs {
		n := (len(g.prompt) + g.want + blockTokens - 1) / blockTokens
		g.blocks = nil
		for _, b := range order[:n] {
			g.blocks = append(g.blocks, int32(b))
		}
		order = order[n:]
	}
	return blocks
}

func goldens(t *testing.T, model, file string) {
	var gs []*generation
	wants := testkit.JSONLines[testkit.Golden](t, file)
	for _, g := range wants {
		gs = append(gs, &generation{prompt: g.PromptIDs, want: len(g.OutputIDs)})
	}
	e := open(t, model, assignBlocks(rand.New(rand.NewPCG(1, 2)), gs))
	for i, g := range gs {
		runAlone(t, e, g)
		if !slices.Equal(g.output, wants[i].OutputIDs) {
			t.Errorf("%q: got %v, want %v", wants[i].Prompt, g.output, wants[i].OutputIDs)
		}
	}
}

func TestGoldens(t *testing.T) {
	goldens(t, testkit.Model(), filepath.Join(testkit.Model(), "golden_greedy.jsonl"))
}

func TestStoriesGoldens(t *testing.T) {
	goldens(
		t, testkit.Shared(t, "data/models/stories260K-hf"),
		testkit.Shared(t, "data/models/stories260K/golden_greedy64.jsonl"),
	)
}

// TestBatchEqualsAlone shows that the tokens and log-probabilities of a sequence are bit-identical
// for any other sequences in the batch and any chunks of its prompt.
func TestBatchEqualsAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var gs []*generation
	for i := range 12 {
		g := &generation{want: 5 + r.IntN(20), params: sample.Params{Seed: uint64(i), Logprobs: true, TopLogprobs: 2}}
		for range 1 + r.IntN(90) {
			g.prompt = append(g.prompt, uint32(3+r.IntN(1000)))
		}
		if i%2 == 1 {
			g.params.Temperature, g.params.TopP, g.params.RepetitionPenalty = 0.9, 0.95, 1.2
		}
		gs = append(gs, g)
	}
	e := open(t, testkit.Model(), assignBlocks(r, gs))
	var want [][]sample.Token
	for _, g := range gs {
		runAlone(t, e, g)
		want = append(want, g.tokens)
		g.tokens, g.output, g.computed = nil, nil, 0
	}
	assignBlocks(r, gs)
	for slices.ContainsFunc(gs, func(g *generation) bool { return !g.done() }) {
		var batch []engine.Sequence
		var who []*generation
		for _, i := range r.Perm(len(gs))[:1+r.IntN(len(gs))] {
			if g := gs[i]; !g.done() {
				batch, who = append(batch, g.next(1+r.IntN(20))), append(who, g)
			}
		}
		if len(batch) == 0 {
			continue
		}
		tokens, err := e.Step(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range who {
			tokens = g.advance(batch[i], tokens)
		}
	}
	for i, g := range gs {
		for j, got := range g.tokens {
			if got.ID != want[i][j].ID || got.Logprob != want[i][j].Logprob || !slices.Equal(got.Top, want[i][j].Top) {
				t.Fatalf("sequence %d, token %d: %v in the batch, %v alone", i, j, got, want[i][j])
			}
		}
	}
}

func TestStepRefusesInvalidSequences(t *testing.T) {
	e := open(t, testkit.Model(), 4)
	good := engine.Sequence{Tokens: []uint32{5}, Blocks: []int32{0}, Sample: true}
	for name, change := range map[string]func(*engine.Sequence){
		"no tokens":                 func(s *engine.Sequence) { s.Tokens = nil },
		"negative position":         func(s *engine.Sequence) { s.Position = -1 },
		"position beyond the table": func(s *engine.Sequence) { s.Position = blockTokens },
		"unknown block":             func(s *engine.Sequence) { s.Blocks = []int32{4} },
		"negative block":            func(s *engine.Sequence) { s.Blocks = []int32{-1} },
		"unknown token":             func(s *engine.Sequence) { s.Tokens = []uint32{1024} },
		"too many tokens": func(s *engine.Sequence) {
			s.Tokens, s.Blocks = make([]uint32, limits.StepTokens+1), make([]int32, 40)
		},
	} {
		bad := good
		change(&bad)
		if _, err := e.Step(t.Context(), []engine.Sequence{bad}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := e.Step(t.Context(), []engine.Sequence{good}); err != nil {
		t.Errorf("after refusals: %v", err)
	}
}
