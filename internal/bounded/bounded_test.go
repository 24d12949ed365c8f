package bounded_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/internal/bounded"
)

// TestAllow checks the burst, the rate per second, and that the number of omitted events is
// returned once.
func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bounded.New(2, 10)
		allowed, omitted := 0, uint64(0)
		for range 100 {
			if ok, n := l.Allow(); ok {
				allowed++
				omitted += n
			}
		}
		if allowed != 10 || omitted != 0 {
			t.Errorf("%d allowed, %d omitted", allowed, omitted)
		}
		time.Sleep(time.Second)
		if ok, n := l.Allow(); !ok || n != 90 {
			t.Errorf("after a second: %t, %d omitted", ok, n)
		}
		if ok, n := l.Allow(); !ok || n != 0 {
			t.Errorf("the second event: %t, %d omitted", ok, n)
		}
		if ok, _ := l.Allow(); ok {
			t.Error("a third event within a second")
		}
	})
}
