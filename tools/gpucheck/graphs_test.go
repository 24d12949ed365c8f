package gpucheck

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/llama"
)

// TestGraphs checks that decode steps by graphs give the same tokens and the same logits as steps without,
// in batches of each size, and measures the capture and a step.
func TestGraphs(t *testing.T) {
	sizes := []int{1, 8, limits.MaxSequences}
	var want [][]sample.Token
	var without []time.Duration
	t.Run("without", func(t *testing.T) {
		device := open(t)
		e, info := loadWith(t, device, llama.Loader{Graphs: llama.NoGraphs})
		want = generateMany(t, e, info)
		for _, size := range sizes {
			without = append(without, decodeTime(t, e, size, stepsOf(device)))
		}
	})
	t.Run("with", func(t *testing.T) {
		device := open(t)
		e, info := loadWith(t, device, llama.Loader{Graphs: llama.AllGraphs})
		generateMany(t, e, info) // so that the capture alone takes memory
		before, _ := device.Memory()
		began := time.Now()
		captured, err := engine.CaptureGraphs(t.Context(), e)
		took := time.Since(began)
		if err != nil || captured.Count == 0 {
			t.Fatalf("captured %+v: %v", captured, err)
		}
		after, _ := device.Memory()
		for i, got := range generateMany(t, e, info) {
			for j, token := range got {
				if token.ID != want[i][j].ID || token.Logprob != want[i][j].Logprob ||
					!slices.Equal(token.Top, want[i][j].Top) {
					t.Fatalf("sequence %d, token %d is %+v by a graph, %+v without", i, j, token, want[i][j])
				}
			}
		}
		counted := info.GraphMemory(limits)
		row(t, "- Capture of %d graphs: %v, and %d bytes less of free device memory after it, of %d counted",
			captured.Count, took.Round(time.Microsecond), before-after, counted)
		if counted < before-after {
			t.Errorf("graphs take %d bytes of device memory, and %d are counted", before-after, counted)
		}
		for i, size := range sizes {
			with := decodeTime(t, e, size, stepsOf(device))
			row(t, "- Decode step, batch %d: %v by a graph, %v without: ratio %.3f", size, with, without[i],
				with.Seconds()/without[i].Seconds())
		}
	})
	row(t, "- Decode steps by graphs against steps without, batches of 1 to %d: %s", limits.MaxSequences, outcome(t))
}

// generateMany runs as many sequences as the engine takes. The batch gets smaller as they end.
func generateMany(t *testing.T, e engine.Engine, info engine.ModelInfo) [][]sample.Token {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	prompts, tokens := make([][]uint32, limits.MaxSequences), make([]int, limits.MaxSequences)
	for i := range prompts {
		for range 1 + r.IntN(40) {
			prompts[i] = append(prompts[i], uint32(3+r.IntN(info.Vocab-3)))
		}
		tokens[i] = 1 + i
	}
	return generate(t, e, prompts, tokens)
}

// stepsOf returns the number of decode steps that are timed: on a software device, a few that check
// that everything runs.
func stepsOf(d cuda.Device) int {
	if d.Info().Simulated {
		return 5
	}
	return 101
}

// decodeTime returns the median time of a number of decode steps.
func decodeTime(t *testing.T, e engine.Engine, size, steps int) time.Duration {
	t.Helper()
	var batch []engine.Sequence
	for i := range size {
		s := engine.Sequence{Tokens: []uint32{5}, Position: 50, Sample: true, Sampling: sample.Params{}}
		for j := range 4 {
			s.Blocks = append(s.Blocks, int32(4*i+j))
		}
		batch = append(batch, s)
	}
	var took []time.Duration
	for range steps {
		began := time.Now()
		if _, err := e.Step(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
