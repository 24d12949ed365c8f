package supervise_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"troupe/actors/supervise"
)

// jobs is a runtime that keeps the jobs that it was given.
type jobs struct {
	supervise.Runtime
	all []func()
}

func (j *jobs) Go(f func()) { j.all = append(j.all, f) }

// TestLockInOrder checks that those who wait for a lock get it in the order in which they asked,
// each only when the runtime runs its job.
func TestLockInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &jobs{Runtime: supervise.System}
		l := supervise.NewLock(rt)
		l.Lock()
		var got []int
		for i := range 3 {
			go func() {
				l.Lock()
				defer l.Unlock()
				got = append(got, i)
			}()
			synctest.Wait()
		}
		l.Unlock()
		for i := range 3 {
			synctest.Wait()
			if len(got) != i || len(rt.all) != i+1 {
				t.Fatalf("%d holders after %d of %d jobs", len(got), i, len(rt.all))
			}
			rt.all[i]()
		}
		synctest.Wait()
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("held by %v", got)
		}
		l.Lock()
		defer l.Unlock()
	})
}
