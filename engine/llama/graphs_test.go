package llama_test

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
)

// TestGraphsEqualPlainSteps runs the same steps on an engine with graphs and on one without. They mix
// prompts, contexts up to the longest one, adapters, and greedy and sampled sequences, in batches of
// each size. Tokens and logits are bit-identical.
func TestGraphsEqualPlainSteps(t *testing.T) {
	const blocks = 16 * 32
	with := newGraphReplica(t, llama.AllGraphs, host.Config{}, blocks)
	without := newGraphReplica(t, llama.NoGraphs, host.Config{}, blocks)
	if got := with.capture(t); got.Count != 10 || got.MaxSequences != limits.MaxSequences || with.spy.captured != 10 {
		t.Fatalf("captured %+v", got)
	}
	if got := without.capture(t); got.Count != 0 || without.spy.captured != 0 {
		t.Fatalf("captured %+v with NoGraphs", got)
	}
	r := rand.New(rand.NewPCG(5, 6))
	a, b := mixedGenerations(t, with, r), mixedGenerations(t, without, rand.New(rand.NewPCG(5, 6)))
	for i := range a[:12] { // the prompts of the others are computed between decode steps
		for a[i].computed < len(a[i].prompt) {
			stepAll(t, with.engine, limits.StepTokens, a[i])
			stepAll(t, without.engine, limits.StepTokens, b[i])
		}
	}
	replayed := make(map[[2]int]bool) // by size of the graph, and whether it has adapters
	for slices.ContainsFunc(a, func(g *generation) bool { return !g.done() }) {
		var batchA, batchB []*generation
		chunk, size, adapters, decodes := 1+r.IntN(16), 1+r.IntN(len(a)), 0, true
		prompts, adapted := r.IntN(4) == 0, r.IntN(3) > 0
		for _, i := range r.Perm(len(a)) {
			if len(batchA) == size || a[i].done() {
				continue
			}
			next := a[i].next(chunk)
			decode := len(next.Tokens) == 1 && next.Sample
			if !decode && !prompts || a[i].adapter != nil && !adapted {
				continue
			}
			decodes = decodes && decode
			if a[i].adapter != nil {
				adapters = 1
			}
			batchA, batchB = append(batchA, a[i]), append(batchB, b[i])
		}
		if len(batchA) == 0 {
			continue
		}
		kernels, before := with.spy.kernels, with.spy.replayed
		stepAll(t, with.engine, chunk, batchA...)
		stepAll(t, without.engine, chunk, batchB...)
		if used := with.spy.replayed > before; used != decodes || used != (with.spy.kernels == kernels) {
			t.Fatalf("a step of %d, decode %v: %d graphs and %d kernels launched", len(batchA), decodes,
				with.spy.replayed-before, with.spy.kernels-kernels)
		}
		if decodes {
			replayed[[2]int{bits.Len(uint(len(batchA) - 1)), adapters}] = true
		}
	}
	for i := range a {
		sameTokens(t, "sequence", a[i].tokens, b[i].tokens)
	}
	if without.spy.replayed > 0 || len(replayed) < 10 {
		t.Errorf("%d of 10 graphs ran; without graphs %d were launched", len(replayed), without.spy.replayed)
	}
}

// mixedGenerations returns sequences with and without adapters, greedy and sampled, short and up to the
// longest context.
func mixedGenerations(t *testing.T, on *graphReplica, r *rand.Rand) (gs []*generation) {
	t.Helper()
	arena := newArena(t, on.device, testkit.Model())
	loaded := []*engine.Adapter{nil}
	for _, file := range mixedAdapters() {
		loaded = append(loaded, arena.put(t, file))
	}
	for i := range limits.MaxSequences {
		g := &generation{want: 20 + r.IntN(20), params: sample.Params{Logprobs: true, TopLogprobs: vocab}}
		prompt := 1 + r.IntN(120)
		if i < 2 {
			prompt, g.want = 400, 112 // to the end of the context
		}
		for range prompt {
			g.prompt = append(g.prompt, uint32(3+r.IntN(1000)))
		}
		if i%3 == 1 {
			g.params.Temperature, g.params.TopP, g.params.RepetitionPenalty = 0.9, 0.95, 1.2
			g.params.Seed = uint64(i)
		}
		if i%2 == 1 {
			g.adapter = loaded[i%len(loaded)]
		}
		gs = append(gs, g)
	}
	assignBlocks(r, gs)
	return gs
}

// TestGraphsOnlyWhereFast checks that an engine captures nothing on a device on which graphs are no gain.
func TestGraphsOnlyWhereFast(t *testing.T) {
	r := newGraphReplica(t, llama.FastGraphs, host.Config{}, kvBlocks)
	if got := r.capture(t); got != (engine.Graphs{}) || r.spy.captured > 0 {
		t.Errorf("captured %+v on the software device", got)
	}
	spy := newGraphSpy(t, host.Config{})
	faster := newReplicaOn(t, fastGraphs{spy})
	if _, err := engine.CaptureGraphs(t.Context(), faster.engine); err != nil || spy.captured != 10 {
		t.Errorf("%d graphs on a device with fast graphs: %v", spy.captured, err)
	}
}

// fastGraphs is a software device that prefers graphs.
type fastGraphs struct{ *graphSpy }

func (d fastGraphs) Info() cuda.Info {
	info := d.graphSpy.Info()
	info.Graphs = true
	return info
}
