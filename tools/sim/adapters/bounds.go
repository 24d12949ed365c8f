package adapters

import (
	"container/heap"
	"math"
	"time"
)

// What the requests of a trace, one after the other, cost a cache of so many adapters that has to take in each that is asked for. Both
// count from a time on.

// lru counts the loads of a cache that evicts the least recently used.
func lru(trace []request, capacity int, from time.Duration) (loads int) {
	last := map[string]int{}
	for i, r := range trace {
		if _, there := last[r.adapter]; !there {
			if len(last) == capacity {
				oldest := ""
				for id, at := range last {
					if oldest == "" || at < last[oldest] {
						oldest = id
					}
				}
				delete(last, oldest)
			}
			if r.at >= from {
				loads++
			}
		}
		last[r.adapter] = i
	}
	return loads
}

// optimum counts the loads of a cache that evicts what is needed last, which is the least there can be: Belady, "A Study of
// Replacement Algorithms for a Virtual-Storage Computer", 1966.
func optimum(trace []request, capacity int, from time.Duration) (loads int) {
	next := make([]int, len(trace)) // index of the adapter's next request
	seen := map[string]int{}
	for i := len(trace) - 1; i >= 0; i-- {
		next[i] = len(trace)
		if at, ok := seen[trace[i].adapter]; ok {
			next[i] = at
		}
		seen[trace[i].adapter] = i
	}
	there := map[string]int{} // when it is needed next
	var order farthest        // with outdated entries
	for i, r := range trace {
		if _, ok := there[r.adapter]; !ok {
			for len(there) == capacity {
				e := heap.Pop(&order).(need)
				if at, ok := there[e.adapter]; ok && at == e.at {
					delete(there, e.adapter)
				}
			}
			if r.at >= from {
				loads++
			}
		}
		there[r.adapter] = next[i]
		heap.Push(&order, need{r.adapter, next[i]})
	}
	return loads
}

// online is the least loads a second that a cache can have which knows how popular adapters are, and not what comes: it keeps all but
// one place for the most popular. Aho, Denning and Ullman, "Principles of Optimal Page Replacement", 1971.
func (l Load) online(capacity int) float64 {
	var all, rest, squares float64
	for i := 1; i <= l.Adapters; i++ {
		p := math.Pow(float64(i), -l.Zipf)
		all += p
		if i >= capacity {
			rest, squares = rest+p, squares+p*p
		}
	}
	return l.PerSecond * (rest - squares/rest) / all
}

type need struct {
	adapter string
	at      int
}

// farthest is a heap of needs, the farthest first.
type farthest []need

func (f farthest) Len() int           { return len(f) }
func (f farthest) Less(i, j int) bool { return f[i].at > f[j].at }
func (f farthest) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *farthest) Push(n any)        { *f = append(*f, n.(need)) }
func (f *farthest) Pop() any {
	old := *f
	n := old[len(old)-1]
	*f = old[:len(old)-1]
	return n
}
