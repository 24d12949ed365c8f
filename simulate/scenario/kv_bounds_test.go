package scenario

import (
	"container/heap"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/workload"
)

// never is the next use of a block that is not used again.
const never = math.MaxInt

// heldBlock is a block in the optimum's tier. Its next use is block number depth of prompt next.
type heldBlock struct {
	hash        uint64
	next, depth int
}

// furthestFirst is a heap of blocks, with the one used last first; among those of one prompt, the end first.
type furthestFirst []heldBlock

func (f furthestFirst) Len() int { return len(f) }
func (f furthestFirst) Less(i, j int) bool {
	if f[i].next != f[j].next {
		return f[i].next > f[j].next
	}
	return f[i].depth > f[j].depth
}
func (f furthestFirst) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *furthestFirst) Push(x any)   { *f = append(*f, x.(heldBlock)) }
func (f *furthestFirst) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// optimalHits counts the leading blocks of prompts that a tier holds with Belady's policy, which knows the future and
// may also reject a new block. A prompt that uses a block uses all blocks before it, so none of these is used later:
// the tier holds complete prefixes of prompts.
func optimalHits(prompts [][]uint64, slots int) (hits int) {
	next := nextUses(prompts)
	holds := make(map[uint64]int) // block -> the prompt that uses it next
	var order furthestFirst       // of all blocks held; may contain outdated entries
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
			heap.Push(&order, heldBlock{h, next[p][i], i})
		}
		for len(holds) > slots {
			if worst := heap.Pop(&order).(heldBlock); holds[worst.hash] == worst.next {
				delete(holds, worst.hash)
			}
		}
	}
	return hits
}

// nextUses returns, for each block of each prompt, the next prompt that uses it.
func nextUses(prompts [][]uint64) [][]int {
	next := make([][]int, len(prompts))
	seen := make(map[uint64]int)
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

// randomPrompts draws prompts of which one that uses a block uses all blocks before it.
func randomPrompts(t *rapid.T) (prompts [][]uint64) {
	for range rapid.IntRange(1, 7).Draw(t, "prompts") {
		var blocks []uint64
		path := uint64(1)
		for range rapid.IntRange(1, 3).Draw(t, "blocks") {
			path = 2*path + uint64(rapid.IntRange(0, 1).Draw(t, "branch"))
			blocks = append(blocks, path)
		}
		prompts = append(prompts, blocks)
	}
	return prompts
}

// mostHits tries every set of blocks that can be kept after each prompt.
func mostHits(prompts [][]uint64, held []uint64, slots int) int {
	if len(prompts) == 0 {
		return 0
	}
	has := func(h uint64) bool {
		for _, x := range held {
			if x == h {
				return true
			}
		}
		return false
	}
	hits := 0
	for hits < len(prompts[0]) && has(prompts[0][hits]) {
		hits++
	}
	all := append([]uint64(nil), held...)
	for _, h := range prompts[0] {
		if !has(h) {
			all = append(all, h)
		}
	}
	best := 0
	for set := range 1 << len(all) {
		var keep []uint64
		for i, h := range all {
			if set>>i&1 == 1 {
				keep = append(keep, h)
			}
		}
		if len(keep) <= slots && (len(keep) == slots || len(keep) == len(all)) { // keeping less is never better
			best = max(best, mostHits(prompts[1:], keep, slots))
		}
	}
	return hits + best
}

func TestOptimalHitsAreMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompts, slots := randomPrompts(t), rapid.IntRange(1, 3).Draw(t, "slots")
		if got, want := optimalHits(prompts, slots), mostHits(prompts, nil, slots); got != want {
			t.Fatalf("%d hits, want %d", got, want)
		}
	})
}

// optimalShares returns the share of the prompts' blocks that the optimum finds, by the number of slots.
func optimalShares(t *testing.T, source workload.Source, slots ...int) (shares []float64) {
	all, err := workload.Collect(source)
	if err != nil {
		t.Fatal(err)
	}
	var prompts [][]uint64
	blocks := 0
	for _, r := range all {
		prompts, blocks = append(prompts, r.Prefix), blocks+len(r.Prefix)
	}
	for _, n := range slots {
		shares = append(shares, float64(optimalHits(prompts, n))/float64(blocks))
		t.Logf("%d prompts, %d blocks, %d slots: %.2f %%", len(prompts), blocks, n, 100*shares[len(shares)-1])
	}
	return shares
}

// TestKVHitsWithinBounds checks that a scenario finds no more KV blocks than a tier that knows the future, and
// at least half as many. With -v it prints the bounds that docs/benchmarks-kv.md quotes.
func TestKVHitsWithinBounds(t *testing.T) {
	s, err := Read(shipped+"/kv-conversation.yaml", facts)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := s.Requests(1)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		optimalShares(t, whole, 1344, 4416, 16704, 65856)
	}
	s.Config.Duration = 3 * time.Minute
	part, err := s.Requests(1)
	if err != nil {
		t.Fatal(err)
	}
	most := optimalShares(t, until(part, s.Config.Duration), 16704)[0]
	result, _ := run(t, s, 1)
	if hits := *result.Models[0].KVHits; hits > most || hits < most/2 {
		t.Errorf("%.4f of the tokens were found, and the optimum finds %.4f of the blocks", hits, most)
	}
}

// until returns the requests of a source that arrive before a time.
func until(source workload.Source, end time.Duration) workload.Source {
	return func(yield func(workload.Request, error) bool) {
		for r, err := range source {
			if err == nil && r.At >= end || !yield(r, err) {
				return
			}
		}
	}
}
