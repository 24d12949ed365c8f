package kv

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestContentsInvariants checks the invariants of Contents against a naive model of one lease.
func TestContentsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewContents()
		holds, size, bytes := make(map[int32]Hash), 0, uint64(0)
		known := false
		c.Change("other", nil, []Committed{{1, Root("other", "", nil)}})
		numbers := func(name string) []int32 {
			return rapid.SliceOfN(rapid.Int32Range(0, 9), 0, 3).Draw(t, name)
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) {
				evicted := numbers("evicted")
				var committed []Committed
				for _, b := range numbers("committed") {
					n := rapid.IntRange(0, 3).Draw(t, "hash")
					committed = append(committed, Committed{b, Root("m", fmt.Sprint(n), nil)})
				}
				c.Change("m-0", evicted, committed)
				known = true
				for _, b := range evicted {
					delete(holds, b)
				}
				for _, b := range committed {
					holds[b.Block] = b.Hash
				}
			},
			"resize": func(*rapid.T) {
				n := rapid.IntRange(0, 10).Draw(t, "blocks")
				if c.Resize("m-0", n); known {
					size = n
					maps.DeleteFunc(holds, func(b int32, _ Hash) bool { return int(b) >= n })
				}
			},
			"release": func(*rapid.T) {
				c.Release("m-0")
				clear(holds)
				known, size, bytes = false, 0, 0
			},
			"adopt": func(*rapid.T) {
				n, b := rapid.IntRange(0, 10).Draw(t, "blocks"), rapid.Uint64Range(1, 2).Draw(t, "bytes")
				if bytes != 0 && bytes != b {
					clear(holds)
				}
				maps.DeleteFunc(holds, func(b int32, _ Hash) bool { return int(b) >= n })
				known, size, bytes = true, n, b
				var want []Committed
				for _, i := range slices.Sorted(maps.Keys(holds)) {
					want = append(want, Committed{i, holds[i]})
				}
				if got := c.Adopt("m-0", n, b); !slices.Equal(got, want) {
					t.Fatalf("reported: adopted %v, want %v", got, want)
				}
			},
			"": func(t *rapid.T) {
				want := []LeaseStats{{"m-0", size, len(holds), bytes}, {"other", 0, 1, 0}}
				if !known {
					want = want[1:]
				}
				if got := c.Stats(); !slices.Equal(got, want) {
					t.Fatalf("bounded: %+v, want %+v", got, want)
				}
			},
		})
	})
}
