package llama

import "testing"

// TestContext compares the pairs of queries and keys of a step, and the tokens that it reads, with those counted one by
// one.
func TestContext(t *testing.T) {
	for _, window := range []int{0, 1, 5, 16} {
		u := unitWork{windowSize: window}
		for position := range 20 {
			for n := 1; n <= 20; n++ {
				pairs, keys := 0, make(map[int]bool)
				for query := position; query < position+n; query++ {
					for key := range query + 1 {
						if window == 0 || key > query-window {
							pairs++
							keys[key] = true
						}
					}
				}
				if got, read := u.context(position, n); got != float64(pairs) || read != len(keys) {
					t.Fatalf("window %d, %d tokens from %d: %v pairs and %d tokens, want %d and %d", window, n,
						position, got, read, pairs, len(keys))
				}
			}
		}
	}
}
