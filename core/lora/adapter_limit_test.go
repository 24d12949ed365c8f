package lora

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestOldRequestClosesSmallestAdapter checks that while an old request waits for a place, only the
// adapter with the fewest sequences admits no requests.
func TestOldRequestClosesSmallestAdapter(t *testing.T) {
	p := newPool(4, "a", "b", "c", "d")
	for i, id := range []string{"a", "b", "c", "d"} {
		p.Pin(string(rune('w'+i)), id)
	}
	carryOut(p)
	waiting, now := line("1:c", "2:d", "3:a", "4:b", "5:")
	a := NewAdmission(Policy{MaxAdapters: 2}, p)
	expect(t, admitIDs(a, waiting, now, 9, "a", "a", "b"), "3", "4", "5") // no request is old
	now = now.Add(time.Second)
	expect(t, admitIDs(a, waiting, now, 9, "a", "a", "b"), "3", "5")
	expect(t, admitIDs(a, waiting, now, 9, "b", "a"), "4", "5") // on a tie, the first name is closed
	// the oldest request gets the place, and a is closed for d
	expect(t, admitIDs(a, waiting, now, 9, "a"), "1", "5")
	expect(t, admitIDs(NewAdmission(Policy{MaxAdapters: 2, FirstCome: true}, p), waiting, now, 9, "a", "b"))
}

// TestAdapterLimitUnderLoad requests more adapters than there are places while the popular ones
// never run out of requests. Once a request is old, it waits at most for one turn of every other
// adapter.
func TestAdapterLimitUnderLoad(t *testing.T) {
	const adapters, places, longest, requests, each = 12, 4, 20, 1500, 10 * time.Millisecond
	var names []string
	for i := range adapters {
		names = append(names, fmt.Sprintf("%02d", i))
	}
	p := newPool(adapters, names...)
	a := NewAdmission(Policy{MaxAdapters: places}, p)
	patience := a.policy.MaxAge + adapters*longest*each
	r := rand.New(rand.NewPCG(3, 4))
	left := map[string]int{} // remaining steps by sequence in the batch
	adapter := map[string]string{}
	var waiting []Waiting
	for now := epoch; len(adapter) < requests || len(waiting) > 0; now = now.Add(each) {
		for range 4 {
			w := Waiting{ID: fmt.Sprintf("%06d", len(adapter)),
				Adapter: names[min(r.IntN(adapters), r.IntN(adapters), r.IntN(adapters))], Arrived: now}
			if len(adapter) < requests {
				waiting, adapter[w.ID] = append(waiting, w), w.Adapter
			}
		}
		var running []string
		for id := range left {
			running = append(running, adapter[id])
		}
		a.Admit(waiting, running, now, func(w Waiting) bool {
			left[w.ID] = 1 + r.IntN(longest)
			running = append(running, w.Adapter)
			return true
		})
		carryOut(p)
		waiting = slices.DeleteFunc(waiting, func(w Waiting) bool { return left[w.ID] > 0 })
		if len(waiting) > 0 && now.Sub(waiting[0].Arrived) > patience {
			t.Fatalf("%s has waited for %s for %s", waiting[0].ID, waiting[0].Adapter, now.Sub(waiting[0].Arrived))
		}
		slices.Sort(running)
		if n := len(slices.Compact(running)); n > places {
			t.Fatalf("%d adapters in a batch", n)
		}
		for id := range left {
			if left[id]--; left[id] == 0 {
				delete(left, id)
				p.Unpin(id)
			}
		}
	}
}
