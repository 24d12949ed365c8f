package replicaset

import (
	"slices"
	"testing"
	"time"
)

// TestOrphans checks that a lease is released once it had no replica for orphanedAfter, and that
// the time starts again for one that had a replica again, or was gone.
func TestOrphans(t *testing.T) {
	o, now := make(orphans), time.Unix(0, 0)
	step := func(after time.Duration, leased []string, known string, want ...string) {
		t.Helper()
		now = now.Add(after)
		if due := o.seen("gpu-0", leased, map[string]bool{known: true}, now); !slices.Equal(due, want) {
			t.Errorf("after %v, due: %v, want %v", now.Sub(time.Unix(0, 0)), due, want)
		}
	}
	both := []string{"a", "b"}
	step(0, both, "")
	step(20*time.Second, both, "a")
	step(9*time.Second, both, "")
	o.seen("gpu-1", []string{"a"}, nil, now)
	step(time.Second, both, "", "b")
	step(20*time.Second, []string{"a"}, "")
	step(9*time.Second, both, "", "a")
	step(time.Second, nil, "")
	step(0, both, "")
}
