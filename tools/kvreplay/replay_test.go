package main

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/kv"
	"troupe/testkit"
)

// randomPrompts draws prompts like those of the trace: a prompt that uses a block uses all blocks
// before it.
func randomPrompts(t *rapid.T) (prompts [][]kv.Hash) {
	for range rapid.IntRange(1, 7).Draw(t, "prompts") {
		var blocks []kv.Hash
		path := "p"
		for range rapid.IntRange(1, 3).Draw(t, "blocks") {
			path += strconv.Itoa(rapid.IntRange(0, 1).Draw(t, "branch"))
			blocks = append(blocks, kv.Root("tree", path, nil))
		}
		prompts = append(prompts, blocks)
	}
	return prompts
}

// exhaustive tries every set of blocks that can be kept after each prompt.
func exhaustive(prompts [][]kv.Hash, held []kv.Hash, slots int) int {
	if len(prompts) == 0 {
		return 0
	}
	hits := 0
	has := func(h kv.Hash) bool {
		for _, x := range held {
			if x == h {
				return true
			}
		}
		return false
	}
	for hits < len(prompts[0]) && has(prompts[0][hits]) {
		hits++
	}
	all := append([]kv.Hash(nil), held...)
	for _, h := range prompts[0] {
		if !has(h) {
			all = append(all, h)
		}
	}
	best := 0
	for set := range 1 << len(all) {
		var keep []kv.Hash
		for i, h := range all {
			if set>>i&1 == 1 {
				keep = append(keep, h)
			}
		}
		if len(keep) <= slots && (len(keep) == slots || len(keep) == len(all)) { // keeping less is never better
			best = max(best, exhaustive(prompts[1:], keep, slots))
		}
	}
	return hits + best
}

func TestOptimumIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompts, slots := randomPrompts(t), rapid.IntRange(1, 3).Draw(t, "slots")
		want := exhaustive(prompts, nil, slots)
		if got := optimum(prompts, slots); got != want {
			t.Fatalf("%d hits, want %d", got, want)
		}
		for _, name := range kv.PolicyNames() {
			if got, err := replay(prompts, name, slots); err != nil || got > want {
				t.Fatalf("%s: %d hits of %d, %v", name, got, want, err)
			}
		}
	})
}

// TestTraceRatesWithinBounds checks that no policy beats the optimum, and that the optimum does not
// beat an unlimited tier.
func TestTraceRatesWithinBounds(t *testing.T) {
	prompts, err := readTrace(testkit.Shared(t, "data/traces/mooncake/conversation_first30min.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := measure(prompts[:800], []int{1000, 4000})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.curves) != 1+len(kv.PolicyNames()) || r.bound <= 0 {
		t.Fatalf("%+v", r)
	}
	for _, c := range r.curves[1:] {
		for i, rate := range c.rates {
			if rate <= 0 || rate > r.curves[0].rates[i] || r.curves[0].rates[i] > r.bound {
				t.Errorf(
					"%s with %d slots: %f, the optimum %f, with room for everything %f", c.name, r.slots[i], rate,
					r.curves[0].rates[i], r.bound,
				)
			}
		}
	}
}

// TestSharedTierRates checks that the way of sharing does not matter with enough room. With less, a
// model can use the other's room only if they share the tier.
func TestSharedTierRates(t *testing.T) {
	var prompts [][]kv.Hash
	for round := range 3 {
		for conversation := range 40 {
			blocks := []kv.Hash{kv.Root("all", "", nil)}
			for n := range 3 + round {
				blocks = append(blocks, kv.Root("conversation", strconv.Itoa(conversation*10+n), nil))
			}
			prompts = append(prompts, blocks)
		}
	}
	models := [2]int{}
	for _, a := range assignModels(prompts) {
		models[a.model]++
	}
	if models[0] == 0 || models[1] == 0 || models[0]%3 != 0 {
		t.Errorf("%v prompts of the models", models)
	}
	// the first block hits for all but the first prompt of each model
	const blocks, found = 40 * (4 + 5 + 6), 40*(4+5) + 38
	ample, err := replayShared(prompts, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, rate := range append(ample.slabs, ample.one, ample.halves) {
		if rate != float64(found)/blocks {
			t.Errorf("with room for all: %+v, want %.4f", ample, float64(found)/blocks)
		}
	}
	again := slices.Repeat(prompts[80:81], 2) // six blocks; the other model is idle
	scarce, err := replayShared(again, 6)
	if err != nil || scarce.one != 0.5 || scarce.halves > 0.25 {
		t.Errorf("%+v, %v", scarce, err)
	}
}
