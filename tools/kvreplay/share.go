package main

import (
	"strconv"

	"troupe/core/kv"
)

// modelPrompt is a prompt of one of two models.
type modelPrompt struct {
	blocks []kv.Hash
	model  int
}

// assignModels assigns each conversation to one of two models. A prompt's second block identifies
// its conversation. The models share no blocks.
func assignModels(prompts [][]kv.Hash) []modelPrompt {
	asks := make([]modelPrompt, len(prompts))
	for i, blocks := range prompts {
		a := modelPrompt{make([]kv.Hash, len(blocks)), int(blocks[min(1, len(blocks)-1)][0]) % 2}
		for n, h := range blocks {
			a.blocks[n] = h.Namespaced(kv.Root("model", strconv.Itoa(a.model), nil))
		}
		asks[i] = a
	}
	return asks
}

// slabCounts are the numbers of slabs that a tier is split into.
var slabCounts = []int{8, 64}

// sharedRates is the hit rate of two models that share a tier with the given number of slots.
type sharedRates struct {
	slots  int
	one    float64   // with blocks of one size
	halves float64   // with half of the slots each
	slabs  []float64 // with blocks of two sizes; by cuts
}

// replayShared makes two models share a tier with the default policy. If their block sizes differ,
// they differ by one byte, so both fill the tier about equally.
func replayShared(prompts [][]kv.Hash, slots int) (sharedRates, error) {
	asks, half := assignModels(prompts), slots/2
	one, err := hitRate(asks, 1, slots, false, kv.SlotUnit)
	if err != nil {
		return sharedRates{}, err
	}
	s := sharedRates{slots: slots, one: one}
	if s.halves, err = hitRate(asks, 1, half, true, kv.SlotUnit); err != nil {
		return sharedRates{}, err
	}
	for _, cut := range slabCounts {
		rate, err := hitRate(asks, cut, slots, false, kv.SlotUnit-1)
		if err != nil {
			return sharedRates{}, err
		}
		s.slabs = append(s.slabs, rate)
	}
	return s, nil
}

// hitRate returns the share of blocks found if the models share a tier with the given number of
// slots, or if they have one each. second is the block size of the second model.
func hitRate(asks []modelPrompt, slabs, slots int, apart bool, second int) (float64, error) {
	var tiers [2]*kv.Tier
	for i := range tiers {
		var err error
		if tiers[i], err = kv.NewTier(
			kv.TierLimits{Slabs: kv.Slabs{Count: slabs, Bytes: slots / slabs * kv.SlotUnit}}, kv.DefaultPolicy,
		); err != nil {
			return 0, err
		}
	}
	if !apart {
		tiers[1] = tiers[0]
	}
	hits, all := 0, 0
	for _, a := range asks {
		hits += visit(tiers[a.model], a.blocks, [2]int{kv.SlotUnit, second}[a.model])
		all += len(a.blocks)
	}
	return float64(hits) / float64(all), nil
}
