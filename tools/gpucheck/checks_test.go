package gpucheck

import (
	"path/filepath"
	"slices"
	"testing"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/cudatest"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit"
)

// TestConformance runs cuda/cudatest for each GEMM backend: memory, streams, order, faults, and
// each kernel against float64.
func TestConformance(t *testing.T) {
	for name, value := range gemmBackends(t) {
		t.Run(name, func(t *testing.T) {
			cudatest.Run(t, func(t *testing.T) cuda.Device { return openAt(t, 0, value) })
			row(t, "- Conformance, and kernels against float64, GEMM by %s: %s", name, outcome(t))
		})
	}
}

func outcome(t *testing.T) string {
	if t.Failed() {
		return "FAILED"
	}
	return "passed"
}

const blockTokens, blocks = 16, 512

var limits = engine.Limits{StepTokens: 512, MaxSequences: 64}

// load opens an engine with the shipped model.
func load(t *testing.T) engine.Engine {
	t.Helper()
	e, _ := loadWithInfo(t)
	return e
}

func loadWithInfo(t *testing.T) (engine.Engine, engine.ModelInfo) {
	t.Helper()
	return loadWith(t, open(t), llama.Loader{})
}

// loadWith opens an engine on a device, which it closes after the test.
func loadWith(t *testing.T, device cuda.Device, loader llama.Loader) (engine.Engine, engine.ModelInfo) {
	t.Helper()
	holder := residency.NewStore(device, loader)
	loaded, err := holder.Load(t.Context(), engine.LoadSpec{
		Lease: "check", Path: *model, BlockTokens: blockTokens, KVBlocks: blocks, Limits: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := holder.Open("check")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.Close()
		if _, err := holder.Unload("check"); err != nil {
			t.Error(err)
		}
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, loaded.Info
}

// generate runs prompts together, each for the given number of tokens, and returns their outputs.
func generate(t *testing.T, e engine.Engine, prompts [][]uint32, tokens []int) [][]sample.Token {
	t.Helper()
	outputs, computed := make([][]sample.Token, len(prompts)), make([]int, len(prompts))
	all, tables, next := make([][]uint32, len(prompts)), make([][]int32, len(prompts)), int32(0)
	for i, p := range prompts {
		all[i] = slices.Clone(p)
		for range (len(p) + tokens[i] + blockTokens - 1) / blockTokens {
			tables[i] = append(tables[i], next)
			next++
		}
	}
	for {
		var batch []engine.Sequence
		var who []int
		room := limits.StepTokens
		for i := range prompts {
			if len(outputs[i]) < tokens[i] && room > 0 {
				end := min(len(all[i]), computed[i]+room)
				room -= end - computed[i]
				batch = append(batch, engine.Sequence{
					Tokens: all[i][computed[i]:end], Position: computed[i], Blocks: tables[i],
					Sample:   end == len(all[i]),
					Sampling: sample.Params{Logprobs: true, TopLogprobs: 1}, Prompt: prompts[i],
					Output: all[i][len(prompts[i]):],
				})
				who = append(who, i)
			}
		}
		if len(batch) == 0 {
			return outputs
		}
		got, err := e.Step(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for n, i := range who {
			computed[i] += len(batch[n].Tokens)
			if batch[n].Sample {
				outputs[i], all[i] = append(outputs[i], got[0]), append(all[i], got[0].ID)
				got = got[1:]
			}
		}
	}
}

// TestModel checks the golden outputs of the shipped model alone, and that all of them in one batch
// are bit-identical.
func TestModel(t *testing.T) {
	wants := testkit.JSONLines[testkit.Golden](t, filepath.Join(*model, "golden_greedy.jsonl"))
	e := load(t)
	var prompts [][]uint32
	var tokens []int
	var alone [][]sample.Token
	count := 0
	for _, w := range wants {
		prompts, tokens = append(prompts, w.PromptIDs), append(tokens, len(w.OutputIDs))
		got := generate(t, e, prompts[len(prompts)-1:], tokens[len(tokens)-1:])[0]
		for i, token := range got {
			if count++; token.ID != w.OutputIDs[i] {
				t.Errorf("%q: token %d is %d, want %d", w.Prompt, i, token.ID, w.OutputIDs[i])
				break
			}
		}
		alone = append(alone, got)
	}
	for i, got := range generate(t, e, prompts, tokens) {
		for j, token := range got {
			if token.ID != alone[i][j].ID || token.Logprob != alone[i][j].Logprob {
				t.Errorf("%q: token %d is %+v in a batch, %+v alone", wants[i].Prompt, j, token, alone[i][j])
				break
			}
		}
	}
	row(
		t, "- Shipped model, %d outputs, %d tokens, alone against golden outputs and batched against alone: %s",
		len(wants), count, outcome(t),
	)
}
