package lora

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestOldClosesOneAdapter: while an old request waits for a place, the adapter with the fewest sequences takes none in, and the others do.
func TestOldClosesOneAdapter(t *testing.T) {
	p := newPool(4, "a", "b", "c", "d")
	for i, id := range []string{"a", "b", "c", "d"} {
		p.Pin(string(rune('w'+i)), id)
	}
	carry(p)
	waiting, now := line("1:c", "2:d", "3:a", "4:b", "5:")
	a := NewAdmission(Policy{MaxAdapters: 2}, p)
	expect(t, admit(a, waiting, now, 9, "a", "a", "b"), "3", "4", "5") // none is old
	now = now.Add(time.Second)
	expect(t, admit(a, waiting, now, 9, "a", "a", "b"), "3", "5")
	expect(t, admit(a, waiting, now, 9, "b", "a"), "4", "5") // of as few the first by name
	expect(t, admit(a, waiting, now, 9, "a"), "1", "5") // the place is the oldest's, and a closes for d
	expect(t, admit(NewAdmission(Policy{MaxAdapters: 2, FirstCome: true}, p), waiting, now, 9, "a", "b"))
}

// TestPlacesUnderLoad: with more adapters asked for than there are places, and sequences of many steps, everybody enters, and nobody but
// for the work before him.
func TestPlacesUnderLoad(t *testing.T) {
	const adapters, steps, longest, every = 12, 3000, 20, 10 * time.Millisecond
	var names []string
	for i := range adapters {
		names = append(names, fmt.Sprintf("%02d", i))
	}
	p := newPool(adapters, names...)
	a := NewAdmission(Policy{MaxAdapters: 4}, p)
	r := rand.New(rand.NewPCG(3, 4))
	left := map[string]int{} // steps of the sequences in the batch
	adapter := map[string]string{}
	var waiting []Waiting
	entered := 0
	for i := range steps {
		now := epoch.Add(time.Duration(i) * every)
		if i < steps-1000 {
			w := Waiting{ID: fmt.Sprintf("%06d", i), Adapter: names[min(r.IntN(adapters), r.IntN(adapters), r.IntN(adapters))], Arrived: now}
			waiting, adapter[w.ID] = append(waiting, w), w.Adapter
		}
		var running []string
		for id := range left {
			running = append(running, adapter[id])
		}
		different := map[string]bool{}
		for _, id := range running {
			different[id] = true
		}
		for _, w := range waiting {
			if now.Sub(w.Arrived) > 4*time.Second {
				t.Fatalf("%s waits for %s", w.ID, now.Sub(w.Arrived))
			}
		}
		a.Admit(waiting, running, now, func(w Waiting) bool {
			left[w.ID], different[w.Adapter] = 1+r.IntN(longest), true
			return true
		})
		if len(different) > 4 {
			t.Fatalf("%d adapters in a batch", len(different))
		}
		carry(p)
		waiting = slices.DeleteFunc(waiting, func(w Waiting) bool { return left[w.ID] > 0 })
		for id := range left {
			if left[id]--; left[id] == 0 {
				delete(left, id)
				p.Unpin(id)
				entered++
			}
		}
	}
	if entered != steps-1000 {
		t.Errorf("%d of %d were served", entered, steps-1000)
	}
}
