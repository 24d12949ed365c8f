package adapters

import (
	"container/heap"
	"math"
	"time"

	"troupe/workload"
)

// The functions in this file count the loads of a cache that serves the requests of a trace one
// after another and must load each requested adapter. They count from a given time on.

// lru counts the loads of a cache with LRU eviction.
func lru(trace []workload.Request, capacity int, from time.Duration) (loads int) {
	last := map[string]int{}
	for i, r := range trace {
		if _, there := last[r.Adapter]; !there {
			if len(last) == capacity {
				oldest := ""
				for id, at := range last {
					if oldest == "" || at < last[oldest] {
						oldest = id
					}
				}
				delete(last, oldest)
			}
			if r.At >= from {
				loads++
			}
		}
		last[r.Adapter] = i
	}
	return loads
}

// optimum counts the loads of a cache that evicts the adapter needed last, which is the minimum:
// Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", 1966.
func optimum(trace []workload.Request, capacity int, from time.Duration) (loads int) {
	next := make([]int, len(trace)) // index of the adapter's next request
	seen := map[string]int{}
	for i := len(trace) - 1; i >= 0; i-- {
		next[i] = len(trace)
		if at, ok := seen[trace[i].Adapter]; ok {
			next[i] = at
		}
		seen[trace[i].Adapter] = i
	}
	there := map[string]int{} // adapter → index of its next request
	var order farthestFirst   // may contain outdated entries
	for i, r := range trace {
		if _, ok := there[r.Adapter]; !ok {
			for len(there) == capacity {
				e := heap.Pop(&order).(nextUse)
				if at, ok := there[e.adapter]; ok && at == e.at {
					delete(there, e.adapter)
				}
			}
			if r.At >= from {
				loads++
			}
		}
		there[r.Adapter] = next[i]
		heap.Push(&order, nextUse{r.Adapter, next[i]})
	}
	return loads
}

// online returns the minimum loads per second of a cache that knows the popularity of adapters but
// not the future. It keeps the most popular in all slots but one. Aho, Denning and Ullman,
// "Principles of Optimal Page Replacement", 1971.
func online(l workload.Load, capacity int) float64 {
	var all, rest, squares float64
	for i := 1; i <= l.Adapters.Len(); i++ {
		p := math.Pow(float64(i), -l.Adapters.Zipf)
		all += p
		if i >= capacity {
			rest, squares = rest+p, squares+p*p
		}
	}
	return l.Rate * (rest - squares/rest) / all
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
