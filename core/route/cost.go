package route

import (
	"slices"

	"troupe/core/backend"
)

// Weights are the parameters of the cost.
type Weights struct {
	// DefaultTokens is the assumed length of an output, and of a prompt before the first one was
	// routed.
	DefaultTokens int
	// A replica gets no more sequences while its load exceeds ShareFactor times the mean load by
	// more than ShareSlack of its own places.
	ShareFactor, ShareSlack float64
	// DRAMAdapterTokens and DiskAdapterTokens are the cost of loading an adapter to the device, in
	// prompt tokens that could be computed meanwhile.
	DRAMAdapterTokens, DiskAdapterTokens int
}

// DefaultWeights are those of every router. An adapter of rank 16 on the attention of a 70B model has
// 131 MB: 5 ms at 25 GB/s over PCIe, and 44 ms more at 3 GB/s from a disk, at 10,000 tokens per second.
// Both times grow with the model as the time per token does.
var DefaultWeights = Weights{
	DefaultTokens: 256, ShareFactor: 1.5, ShareSlack: 1.0 / 8, DRAMAdapterTokens: 64, DiskAdapterTokens: 512,
}

const meanWindow = 16 // requests in the running mean of prefills

// load returns the number of sequences ahead of a new one.
func (s *slot) load() int { return s.Running + s.Waiting + s.routed }

// cached returns how many tokens of a prompt are in the given number of leading blocks. It excludes
// the last token, which is always computed because its logits choose the next one.
func (s *slot) cached(tokens, blocks int) int {
	if s.BlockTokens <= 0 || tokens <= 0 {
		return 0
	}
	return min(blocks, (tokens-1)/s.BlockTokens) * s.BlockTokens
}

// cost returns the number of tokens computed before the first output token of a prompt, of which
// the replica holds the given number of leading blocks.
func (t *Routes) cost(s *slot, tokens, blocks int) int {
	queue := s.Waiting*int(t.meanPrefill) + s.routedTokens + tokens - s.cached(tokens, blocks)
	cost := queue
	if s.StepTokens > 0 {
		decoding := min(s.load(), max(s.MaxSequences, s.Running))
		perStep := max(1, s.StepTokens-s.Running)
		cost += decoding * ((queue + perStep - 1) / perStep)
	}
	if s.MaxSequences > 0 {
		cost += t.weights.DefaultTokens * max(0, s.load()+1-s.MaxSequences)
	}
	if s.KVBlocks > 0 {
		cost += max(0, queue-s.KVBlocksFree*s.BlockTokens)
	}
	return cost
}

// residence returns where a replica has an adapter. An adapter that was requested since the last
// report is being loaded and counts as in host memory.
func (s *slot) residence(adapter string) Residence {
	switch {
	case adapter == "":
		return NoAdapter
	case s.Adapters[adapter] == OnDisk && slices.Contains(s.loading, adapter):
		return InDRAM
	}
	return s.Adapters[adapter]
}

// adapterCost returns the cost of loading an adapter to the device, in tokens.
func (t *Routes) adapterCost(s *slot, adapter string) int {
	switch s.residence(adapter) {
	case OnDisk:
		return t.weights.DiskAdapterTokens
	case InDRAM:
		return t.weights.DRAMAdapterTokens
	}
	return 0
}

// exclusion returns why a replica may not be chosen, before loads are compared.
func (s *slot) exclusion(r Request) Exclusion {
	switch {
	case s.State == Suspended && r.Revision == "":
		return IsSuspended
	case s.State == Draining:
		return IsDraining
	case s.State == Failed:
		return HasFailed
	case s.State != Serving && s.State != Suspended:
		return IsLoading
	case s.Faulty:
		return IsFaulty
	case r.Revision != "" && s.Revision != "" && s.Revision != r.Revision:
		return OtherRevision
	case r.Revision != "" && s.Lacks.Has(backend.Resume):
		return CannotResume
	case r.Adapter != "" && s.Lacks.Has(backend.Adapters):
		return NoAdapters
	case s.State == Suspended:
		return Finishes
	case slices.Contains(r.Avoid, s.Name):
		return Avoided
	}
	return Eligible
}
