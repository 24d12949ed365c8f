package route

import "slices"

const (
	// defaultTokens stands for what nobody knows: how long an output will be, and a prompt before one was seen.
	defaultTokens = 256
	meanWindow    = 16 // requests that the running mean of prompts reaches back

	// A replica with more sequences than shareFactor times the mean and shareSlack of its own places gets no more.
	shareFactor = 1.5
	shareSlack  = 1.0 / 8

	// dramAdapterTokens and diskAdapterTokens are what bringing an adapter to the device costs, in prompt tokens that could be computed meanwhile: of rank 16 on
	// the attention of a 70B model it is 131 MB, 5 ms at 25 GB/s over PCIe and 44 ms more at 3 GB/s from a disk, at 10,000 tokens a second. Both
	// times grow with the model as the time of a token does.
	dramAdapterTokens = 64
	diskAdapterTokens = 512
)

// load is how many sequences are ahead of the next one.
func (s *slot) load() int { return s.Running + s.Waiting + s.routed }

// cached is how many tokens of a prompt are found in the leading blocks. The last token is always computed: its logits
// choose the next.
func (s *slot) cached(tokens, blocks int) int {
	if s.BlockTokens <= 0 || tokens <= 0 {
		return 0
	}
	return min(blocks, (tokens-1)/s.BlockTokens) * s.BlockTokens
}

// cost is how many tokens are computed before the first one of a prompt of which so many leading blocks are held.
func (t *Routes) cost(s *slot, tokens, blocks int) int {
	queue := s.Waiting*int(t.meanPrefill) + s.routedTokens + tokens - s.cached(tokens, blocks)
	cost := queue
	if s.StepTokens > 0 {
		decoding := min(s.load(), max(s.MaxSequences, s.Running))
		perStep := max(1, s.StepTokens-s.Running)
		cost += decoding * ((queue + perStep - 1) / perStep)
	}
	if s.MaxSequences > 0 {
		cost += defaultTokens * max(0, s.load()+1-s.MaxSequences)
	}
	if s.KVBlocks > 0 {
		cost += max(0, queue-s.KVBlocksFree*s.BlockTokens)
	}
	return cost
}

// has says where a replica has an adapter. One that was asked for since the last report is on its way, which is as good as halfway there.
func (s *slot) residence(adapter string) Residence {
	switch {
	case adapter == "":
		return NoAdapter
	case s.Adapters[adapter] == OnDisk && slices.Contains(s.loading, adapter):
		return InDRAM
	}
	return s.Adapters[adapter]
}

// fetch is what bringing an adapter to the device costs, in tokens.
func (s *slot) adapterCost(adapter string) int {
	switch s.residence(adapter) {
	case OnDisk:
		return diskAdapterTokens
	case InDRAM:
		return dramAdapterTokens
	}
	return 0
}

// exclusion says whether a replica may be chosen, before loads are compared.
func (s *slot) exclusion(r Request) Exclusion {
	switch {
	case s.State == Draining:
		return IsDraining
	case s.State == Failed:
		return HasFailed
	case s.State != Serving:
		return IsLoading
	case r.Revision != "" && s.Revision != "" && s.Revision != r.Revision:
		return OtherRevision
	case slices.Contains(r.Avoid, s.Name):
		return Avoided
	}
	return Eligible
}
