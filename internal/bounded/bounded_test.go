package bounded_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/internal/bounded"
)

// TestAllow: so many at once and a second are allowed, and the number left out is told once.
func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bounded.New(2, 10)
		said, leftOut := 0, uint64(0)
		for range 100 {
			if ok, n := l.Allow(); ok {
				said++
				leftOut += n
			}
		}
		if said != 10 || leftOut != 0 {
			t.Errorf("%d allowed, %d left out", said, leftOut)
		}
		time.Sleep(time.Second)
		if ok, n := l.Allow(); !ok || n != 90 {
			t.Errorf("after a second: %t, %d left out", ok, n)
		}
		if ok, n := l.Allow(); !ok || n != 0 {
			t.Errorf("the second one: %t, %d left out", ok, n)
		}
		if ok, _ := l.Allow(); ok {
			t.Error("a third one in a second")
		}
	})
}
