package main

import (
	"container/heap"
	"math"

	"troupe/core/kv"
)

// replay returns the number of prefix hits: leading blocks of prompts that a tier with the given
// number of slots holds when the prompt arrives.
func replay(prompts [][]kv.Hash, policy string, slots int) (int, error) {
	tier, err := kv.NewTier(kv.TierLimits{Slabs: kv.Slabs{Count: 1, Bytes: slots * kv.SlotUnit}}, policy)
	if err != nil {
		return 0, err
	}
	hits := 0
	for _, blocks := range prompts {
		hits += visit(tier, blocks, kv.SlotUnit)
	}
	return hits, nil
}

// visit processes a prompt: it touches the leading blocks that are in the tier, returns their
// number, and adds the others.
func visit(tier *kv.Tier, blocks []kv.Hash, bytes int) (hits int) {
	hits = tier.Lookup(blocks)
	for i := len(blocks) - 1; i >= hits; i-- { // the end first, so that it is evicted first
		if tier.State(blocks[i]) != kv.Absent {
			continue
		}
		if slot, _, ok := tier.Reserve(blocks[i], bytes); ok {
			tier.Commit(slot)
		}
	}
	return hits
}

// never is the next use of a block that is not used again.
const never = math.MaxInt

// entry is a block in the optimum's tier. Its next use is block number depth of prompt next.
type entry struct {
	hash        kv.Hash
	next, depth int
}

// furthestFirst is a heap of blocks, with the one used last first; among those of one prompt, the
// end first.
type furthestFirst []entry

func (f furthestFirst) Len() int { return len(f) }
func (f furthestFirst) Less(i, j int) bool {
	if f[i].next != f[j].next {
		return f[i].next > f[j].next
	}
	return f[i].depth > f[j].depth
}
func (f furthestFirst) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *furthestFirst) Push(x any)   { *f = append(*f, x.(entry)) }
func (f *furthestFirst) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// optimum is replay with Belady's policy ("A study of replacement algorithms for a virtual-storage
// computer", 1966), which may also reject a new block. A prompt that uses a block uses all blocks
// before it, so none of these is used later: the tier holds complete prefixes of prompts.
func optimum(prompts [][]kv.Hash, slots int) int {
	next := nextUses(prompts)
	holds := make(map[kv.Hash]int) // block -> the prompt that uses it next
	var order furthestFirst        // of all blocks held; may contain outdated entries
	hits := 0
	for p, blocks := range prompts {
		leading := true
		for i, h := range blocks {
			if _, ok := holds[h]; !ok {
				leading = false
			} else if leading {
				hits++
			}
			if next[p][i] == never {
				delete(holds, h)
				continue
			}
			holds[h] = next[p][i]
			heap.Push(&order, entry{h, next[p][i], i})
		}
		for len(holds) > slots {
			if worst := heap.Pop(&order).(entry); holds[worst.hash] == worst.next {
				delete(holds, worst.hash)
			}
		}
	}
	return hits
}

// nextUses returns, for each block of each prompt, the next prompt that uses it.
func nextUses(prompts [][]kv.Hash) [][]int {
	next := make([][]int, len(prompts))
	seen := make(map[kv.Hash]int)
	for p := len(prompts) - 1; p >= 0; p-- {
		next[p] = make([]int, len(prompts[p]))
		for i, h := range prompts[p] {
			if n, ok := seen[h]; ok {
				next[p][i] = n
			} else {
				next[p][i] = never
			}
		}
		for _, h := range prompts[p] {
			seen[h] = p
		}
	}
	return next
}
