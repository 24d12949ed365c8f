package scenario

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/core/hbm"
	"troupe/workload"
)

// The functions in this file count the loads of a cache that serves requests one after another and must load each
// requested adapter. They bound the loads of a simulation from both sides.

// lru counts the loads of a cache with LRU eviction.
func lru(all []workload.Request, capacity int) (loads int) {
	last := map[string]int{}
	for i, r := range all {
		if _, there := last[r.Adapter]; !there {
			if loads++; len(last) == capacity {
				oldest := ""
				for id, at := range last {
					if oldest == "" || at < last[oldest] {
						oldest = id
					}
				}
				delete(last, oldest)
			}
		}
		last[r.Adapter] = i
	}
	return loads
}

// optimum counts the loads of a cache that evicts the adapter needed last, which is the minimum:
// Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", 1966.
func optimum(all []workload.Request, capacity int) (loads int) {
	next, seen := make([]int, len(all)), map[string]int{} // index of the adapter's next request
	for i := len(all) - 1; i >= 0; i-- {
		next[i] = len(all)
		if at, ok := seen[all[i].Adapter]; ok {
			next[i] = at
		}
		seen[all[i].Adapter] = i
	}
	there := map[string]int{} // adapter → index of its next request
	var order farthestFirst   // may contain outdated entries
	for i, r := range all {
		if _, ok := there[r.Adapter]; !ok {
			for loads++; len(there) == capacity; {
				e := heap.Pop(&order).(nextUse)
				if at, ok := there[e.adapter]; ok && at == e.at {
					delete(there, e.adapter)
				}
			}
		}
		there[r.Adapter] = next[i]
		heap.Push(&order, nextUse{r.Adapter, next[i]})
	}
	return loads
}

type nextUse struct {
	adapter string
	at      int
}

// farthestFirst is a heap of next uses, the farthest one first.
type farthestFirst []nextUse

func (f farthestFirst) Len() int           { return len(f) }
func (f farthestFirst) Less(i, j int) bool { return f[i].at > f[j].at }
func (f farthestFirst) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *farthestFirst) Push(n any)        { *f = append(*f, n.(nextUse)) }
func (f *farthestFirst) Pop() any {
	old := *f
	n := old[len(old)-1]
	*f = old[:len(old)-1]
	return n
}

// minLoads tries every eviction and returns the minimum number of loads.
func minLoads(all []workload.Request, there []string, capacity int) int {
	if len(all) == 0 {
		return 0
	}
	if slices.Contains(there, all[0].Adapter) {
		return minLoads(all[1:], there, capacity)
	}
	if len(there) < capacity {
		return 1 + minLoads(all[1:], append(slices.Clone(there), all[0].Adapter), capacity)
	}
	best := math.MaxInt
	for i := range there {
		next := slices.Clone(there)
		next[i] = all[0].Adapter
		best = min(best, 1+minLoads(all[1:], next, capacity))
	}
	return best
}

func TestOptimumIsMinimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var all []workload.Request
		for range 12 {
			all = append(all, workload.Request{Adapter: string(rune('a' + r.IntN(5)))})
		}
		if got, want := optimum(all, 2), minLoads(all, nil, 2); got != want || lru(all, 2) < got {
			t.Fatalf("%v: %d loads, want %d; LRU %d", all, got, want, lru(all, 2))
		}
	}
}

// boundsOf returns the requests of a scenario with one deployment, and the bounds of its loads.
func boundsOf(t *testing.T, name string, seed uint64) (s *Scenario, most, least int) {
	s, err := Read(shipped+"/"+name+".yaml", facts)
	if err != nil {
		t.Fatal(err)
	}
	source, err := s.Requests(seed)
	if err != nil {
		t.Fatal(err)
	}
	all, err := workload.Collect(source)
	if err != nil {
		t.Fatal(err)
	}
	a := s.Config.Deployments[0].Adapters
	fit := a.Pages / int((a.Bytes[0]+hbm.PageBytes-1)/hbm.PageBytes)
	most, least = lru(all, fit), optimum(all, fit)
	t.Logf("%s, seed %d: %d requests; %d adapters fit; %d loads with LRU, at least %d", name, seed, len(all), fit, most,
		least)
	return s, most, least
}

// TestAdapterLoadsWithinBounds checks that the product's eviction is better than LRU, and no better than knowing the
// future. With -v it prints the bounds of the shipped scenarios, which docs/simulations/adapters.md quotes.
func TestAdapterLoadsWithinBounds(t *testing.T) {
	s, most, least := boundsOf(t, "adapters-arena", 1)
	result, _ := run(t, s, 1)
	if loads := int(*result.Models[0].AdapterLoads); loads <= least || loads >= most {
		t.Errorf("%d loads, not between %d and %d", loads, least, most)
	}
	if testing.Verbose() {
		for seed := range uint64(5) {
			boundsOf(t, "adapters-thousand", 1+seed)
		}
	}
}
