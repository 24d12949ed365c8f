package simulated

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/core/cost"
	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/simulated"
	"troupe/engine"
	"troupe/internal/costfile"
	"troupe/modelfile"
	"troupe/testkit"
)

type clock struct{}

func (clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// load loads the model of the shape of Llama 3.1 8B onto a simulated H200.
func load(t *testing.T) (engine.Weights, *simulated.Device) {
	t.Helper()
	profile, err := costfile.Read("h200")
	if err != nil {
		t.Fatal(err)
	}
	d, err := simulated.Open(simulated.Config{Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	w, err := Loader{Clock: clock{}}.Load(t.Context(), d, filepath.Join(testkit.Root(), "examples/simulated/shape-8b"))
	if err != nil {
		t.Fatal(err)
	}
	return w, d
}

func openEngine(t *testing.T, w engine.Weights) engine.Engine {
	t.Helper()
	e, err := w.Open(engine.Arena{Blocks: func() int { return 100 }, BlockTokens: 16}, engine.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// generate continues a sequence by n tokens.
func generate(t *testing.T, e engine.Engine, s engine.Sequence, n int) (out []uint32) {
	t.Helper()
	for range n {
		tokens, err := e.Step(t.Context(), []engine.Sequence{s})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tokens[0].ID)
		s.Position, s.Tokens = s.Position+len(s.Tokens), []uint32{tokens[0].ID}
	}
	return out
}

// TestStepsTakeTheCostModelsTime checks the time of loads and steps, and that a step that is cancelled ends.
func TestStepsTakeTheCostModelsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w, d := load(t)
		profile, _ := d.Profile()
		bytes := w.Info().WeightBytes
		if free, total := d.Memory(); total-free != bytes || bytes < 16e9 || bytes > 17e9 {
			t.Errorf("weights of %d bytes use %d", bytes, total-free)
		}
		link := cost.Linear{BytesPerSecond: profile.Device.PCIeBandwidth.Value}
		if took := time.Since(began); took != link.Time(bytes) {
			t.Errorf("the load took %v, want %v", took, link.Time(bytes))
		}
		steps, e := w.(*weights).steps, openEngine(t, w)
		prompt := engine.Sequence{Tokens: make([]uint32, 64), Blocks: make([]int32, 10)}
		decode := engine.Sequence{Tokens: make([]uint32, 1), Position: 100, Blocks: make([]int32, 10), Sample: true}
		began = time.Now()
		if _, err := e.Step(t.Context(), []engine.Sequence{prompt, decode}); err != nil {
			t.Fatal(err)
		}
		want := steps.Time(cost.Step{Prompt: 64, Decode: 1, Context: 100})
		if took := time.Since(began); took != want || want < 3*time.Millisecond {
			t.Errorf("the step took %v, want %v", took, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Step(ctx, []engine.Sequence{decode}); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled step: %v", err)
		}
	})
}

// TestTokens checks that tokens depend on the sequence and the seed alone, also if it continues elsewhere, and that
// Banned and Allowed hold.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := load(t)
		e := openEngine(t, w)
		s := engine.Sequence{Tokens: []uint32{9, 8, 7}, Blocks: make([]int32, 100), Sample: true,
			Sampling: sample.Params{Temperature: 1, Seed: 3, Banned: w.Info().EOS}}
		all := generate(t, e, s, 50)
		rest := s
		rest.Tokens = append(slices.Clone(s.Tokens), all[:20]...) // all is computed again
		if got := generate(t, openEngine(t, w), rest, 30); !slices.Equal(got, all[20:]) {
			t.Errorf("continued with %v, want %v", got, all[20:])
		}
		other := s
		other.Sampling.Seed = 4
		if slices.Equal(generate(t, e, other, 50), all) {
			t.Error("another seed gives the same tokens")
		}
		words := w.(*weights).words
		for _, id := range all {
			if !slices.Contains(words.ids, id) {
				t.Errorf("token %d is no word", id)
			}
		}
		limited := s
		limited.Sampling.Allowed = []uint32{5, 6}
		limited.Sampling.Banned = []uint32{5}
		for _, id := range generate(t, e, limited, 20) {
			if id != 6 {
				t.Errorf("token %d, and 6 alone is allowed", id)
			}
		}
		free := s
		free.Sampling.Banned = nil
		free.Blocks = make([]int32, 1000)
		if !slices.Contains(generate(t, e, free, 10*MeanOutput), w.Info().EOS[0]) {
			t.Error("no end of sequence")
		}
	})
}

// TestRefused checks that blocks that are not there, and devices that are not simulated, are refused.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := load(t)
		e := openEngine(t, w)
		for name, s := range map[string]engine.Sequence{
			"no tokens":    {Blocks: []int32{0}},
			"too few":      {Tokens: make([]uint32, 17), Blocks: []int32{0}},
			"not there":    {Tokens: make([]uint32, 1), Blocks: []int32{100}},
			"an adapter":   {Tokens: make([]uint32, 1), Blocks: []int32{0}, Adapter: &engine.Adapter{}},
			"below 0":      {Tokens: make([]uint32, 1), Blocks: []int32{-1}},
			"past its end": {Tokens: make([]uint32, 1), Position: 16, Blocks: []int32{0}},
		} {
			if _, err := e.Step(t.Context(), []engine.Sequence{s}); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := (Loader{Clock: clock{}}).Load(t.Context(), cuda.Device(d), testkit.Model()); err == nil {
		t.Error("a software device runs a simulated model")
	}
}

// TestDigests checks that a simulated model has another revision than the native one of the same folder, and the same
// on every node.
func TestDigests(t *testing.T) {
	l := Loader{Roots: modelfile.Roots{}}
	d, changed := l.CachedDigests(testkit.Model())
	again, _ := l.CachedDigests(testkit.Model())
	if d.Revision == "" || d != again || changed {
		t.Errorf("%v, then %v, changed %v", d, again, changed)
	}
}
