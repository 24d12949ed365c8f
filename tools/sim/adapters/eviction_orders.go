package adapters

import (
	"cmp"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"troupe/core/lora"
	"troupe/workload"
)

// orders are alternative eviction orders, and a faster way of loading. All use the strategy "… and
// prefetch".
var orders = []struct {
	name   string
	change func(*Setting)
}{
	{"the pool's: popularity halves in 60 s", func(*Setting) {}},
	{"popularity halves in 1 s: nearly LRU", func(s *Setting) { s.HalfLife = time.Second }},
	{"… in 10 s", func(s *Setting) { s.HalfLife = 10 * time.Second }},
	{"… in 10 min: nearly LFU", func(s *Setting) { s.HalfLife = 10 * time.Minute }},
	{"known popularity of each adapter", func(s *Setting) { s.Order = byPopularity }},
	{"known future", func(s *Setting) { s.Order = byNextRequest }},
	{
		"the pool's, and a step may begin after an adapter's first layer (not implemented)",
		func(s *Setting) { s.Streamed = true },
	},
}

// byPopularity evicts the adapter with the lowest request rate, by the true probabilities.
func byPopularity(*run) lora.Order {
	return func(a, b string) int { return cmp.Compare(b, a) } // names are sorted by popularity
}

// byNextRequest evicts the adapter whose next request is the farthest in the future.
func byNextRequest(r *run) lora.Order {
	requests := map[string][]int{}
	for i, q := range r.trace {
		requests[q.Adapter] = append(requests[q.Adapter], i)
	}
	next := func(adapter string) int {
		all := requests[adapter]
		if i := sort.SearchInts(all, r.nextRequest); i < len(all) {
			return all[i]
		}
		return len(r.trace)
	}
	return func(a, b string) int { return cmp.Compare(next(b), next(a)) }
}

// orderTable returns the table of their results.
func orderTable(s Setting, traces [][]workload.Request, least []float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
### Other eviction orders

The same requests and seeds. With any order, an adapter in use cannot be evicted and a requested one must be loaded.
So even an order that knows the future does not reach the optimum of a cache whose adapters are in use for no time.
%s`, tableHead)
	prefetch := strategies[2]
	for _, order := range orders {
		s := s
		s.Policy, s.Popular = prefetch.policy, prefetch.popular
		order.change(&s)
		var outcomes []Outcome
		for _, trace := range traces {
			outcomes = append(outcomes, simulate(s, trace))
		}
		fmt.Fprintln(os.Stderr, order.name)
		b.WriteString(line(order.name, outcomes, least))
	}
	return b.String()
}
