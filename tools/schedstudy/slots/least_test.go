package slots

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// situation is what a search without the argument of doc.go distinguishes: a time, the models that are held, and the
// requests that are served.
type situation struct {
	moment       int
	held, served uint64
}

// tryAll returns the least number of loads by trying any number of loads of any model into any slot at the time of
// each arrival and each deadline.
func tryAll(requests []Request, models int, held []int, wait time.Duration) int {
	times := map[time.Duration]bool{}
	for _, r := range requests {
		times[r.At], times[r.At+wait] = true, true
	}
	moments := slices.Sorted(maps.Keys(times))
	serve := func(s situation) situation {
		for i, r := range requests {
			if at := moments[s.moment]; s.held&(1<<r.Model) != 0 && r.At <= at && at <= r.At+wait {
				s.served |= 1 << i
			}
		}
		return s
	}
	start := situation{}
	for _, m := range held {
		start.held |= 1 << m
	}
	for loads, level := 0, []situation{serve(start)}; ; loads++ {
		seen := map[situation]bool{}
		var next []situation
		for len(level) > 0 {
			s := level[len(level)-1]
			if level = level[:len(level)-1]; seen[s] {
				continue
			}
			seen[s] = true
			for in := range models {
				for out := range models {
					if s.held&(1<<in) == 0 && s.held&(1<<out) != 0 {
						loaded := s
						loaded.held = s.held&^(1<<out) | 1<<in
						next = append(next, serve(loaded))
					}
				}
			}
			late := slices.ContainsFunc(requests, func(r Request) bool {
				return r.At+wait <= moments[s.moment] && s.served&(1<<slices.Index(requests, r)) == 0
			})
			if late {
				continue
			}
			if s.moment == len(moments)-1 {
				return loads
			}
			s.moment++
			level = append(level, serve(s))
		}
		level = next
	}
}

// TestLeastIsLeast compares the search with one that tries everything.
func TestLeastIsLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		models, slots, wait := 3+r.IntN(2), 1+r.IntN(2), time.Duration(r.IntN(5))
		var requests []Request
		for at := time.Duration(0); len(requests) < 8; at += 1 + time.Duration(r.IntN(3)) {
			requests = append(requests, Request{at, r.IntN(models)})
		}
		held := []int{0, 1}[:slots]
		if got, want := Least(requests, models, held, wait), tryAll(requests, models, held, wait); got != want {
			t.Fatalf("%v, %d slots, wait %d: %d loads, want %d", requests, slots, wait, got, want)
		}
	}
}
