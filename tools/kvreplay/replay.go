package main

import (
	"container/heap"
	"math"

	"troupe/core/kv"
)

// replay returns how many leading blocks of the prompts a tier of so many slots held when they came.
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

// visit is a prompt: its leading blocks that are here, which it returns, are wanted, and the others come.
func visit(tier *kv.Tier, blocks []kv.Hash, bytes int) (hits int) {
	hits = tier.Lookup(blocks)
	for i := len(blocks) - 1; i >= hits; i-- { // the end first: it is to leave first
		if tier.State(blocks[i]) != kv.Absent {
			continue
		}
		if slot, _, ok := tier.Reserve(blocks[i], bytes); ok {
			tier.Commit(slot)
		}
	}
	return hits
}

// never is when a block is wanted next that is not wanted any more.
const never = math.MaxInt

// held is a block of the optimum's tier: wanted next by prompt next, there as block number depth.
type held struct {
	hash        kv.Hash
	next, depth int
}

// furthest is a heap of blocks, with the one first that is wanted last; of a prompt's, the end.
type furthest []held

func (f furthest) Len() int { return len(f) }
func (f furthest) Less(i, j int) bool {
	if f[i].next != f[j].next {
		return f[i].next > f[j].next
	}
	return f[i].depth > f[j].depth
}
func (f furthest) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *furthest) Push(x any)   { *f = append(*f, x.(held)) }
func (f *furthest) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// optimum is replay with Belady's policy ("A study of replacement algorithms for a virtual-storage computer", 1966), which may also
// leave a new block out. Since whoever wants a block wants all before it, none of these is wanted later: what it holds are
// whole beginnings of prompts.
func optimum(prompts [][]kv.Hash, slots int) int {
	next := nextUses(prompts)
	holds := make(map[kv.Hash]int) // block -> the prompt that wants it next
	var order furthest             // of all that is held; with entries that are out of date, since the block was wanted meanwhile
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
			heap.Push(&order, held{h, next[p][i], i})
		}
		for len(holds) > slots {
			if worst := heap.Pop(&order).(held); holds[worst.hash] == worst.next {
				delete(holds, worst.hash)
			}
		}
	}
	return hits
}

// nextUses says for each block of each prompt which prompt wants it next.
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
