package route

import (
	"fmt"
	"testing"
)

// TestLongestPrefix checks that the holder of the most leading blocks is found among those allowed.
// A removed holder has no blocks, and callers are spread over equal holders.
func TestLongestPrefix(t *testing.T) {
	h := NewBlockIndex()
	anyone := func(string) bool { return true }
	for i := range 70 { // more than one word of slots
		h.Update(fmt.Sprint("other", i), nil, []uint64{1000 + uint64(i)})
	}
	h.Update("short", nil, []uint64{1, 2})
	h.Update("long", nil, []uint64{1, 2, 3, 5})
	h.Update("late", nil, []uint64{2, 3, 4, 5})
	prompt := []uint64{1, 2, 3, 4, 5}
	check := func(blocks []uint64, may func(string) bool, want string, n int) {
		t.Helper()
		if name, got := h.LongestPrefix(blocks, "r", may); name != want || got != n {
			t.Errorf("%v: %s has %d, want %s with %d", blocks, name, got, want, n)
		}
	}
	check(prompt, anyone, "long", 3)
	check(prompt[1:], anyone, "late", 4)
	check(prompt, func(name string) bool { return name != "long" }, "short", 2)
	check([]uint64{7}, anyone, "", 0)
	check(nil, anyone, "", 0)
	check(prompt, func(string) bool { return false }, "", 0)
	h.Update("long", []uint64{2}, nil)
	check(prompt, anyone, "short", 2)
	h.Remove("short")
	check(prompt, anyone, "long", 1)
	h.Update("new", nil, []uint64{9}) // in the slot of short
	check([]uint64{9, 1}, anyone, "new", 1)
	if held := h.BlocksOf("short"); held != nil {
		t.Errorf("a removed holder has %v", held)
	}
	h.Update("twin", nil, []uint64{9})
	asked := map[string]int{}
	for i := range 100 {
		name, _ := h.LongestPrefix([]uint64{9}, fmt.Sprint(i), anyone)
		asked[name]++
	}
	if asked["new"] < 20 || asked["twin"] < 20 {
		t.Errorf("equal holders were chosen unevenly: %v", asked)
	}
}
