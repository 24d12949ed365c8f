package mutant

import (
	"slices"
	"testing"
)

type row struct {
	When func() bool
	To   int
}

// with puts a change into effect, or records what is reached.
func with(t *testing.T, n int, record bool) {
	t.Helper()
	active, reach.wanted = n, record
	Begin()
	t.Cleanup(func() { active, reach.wanted = 0, false })
}

// TestInEffect checks what each change does, and that it does nothing while it is not in effect.
func TestInEffect(t *testing.T) {
	rows := []row{{nil, 1}, {func() bool { return false }, 2}}
	for _, n := range []int{0, 1} {
		with(t, n, false)
		on := n == 1
		if On(1) != on || Or(1, false) != on || And(1, true) == on || !Or(1, true) || And(1, false) {
			t.Errorf("conditions of change 1 are wrong while %d is in effect", n)
		}
		if got := len(Without(1, 0, []int{7, 8})); got != 2-n {
			t.Errorf("%d elements are left while %d is in effect", got, n)
		}
		if got := Swapped(1, 0, []int{7, 8}); slices.Equal(got, []int{8, 7}) != on {
			t.Errorf("%v while %d is in effect", got, n)
		}
		if got := WithoutRow(1, 0, rows); len(got) != 2-n || got[0].To != 1+n {
			t.Errorf("%d rows while %d is in effect", len(got), n)
		}
		if got := Unguarded(1, 1, rows); (got[1].When == nil) != on || rows[1].When == nil {
			t.Errorf("the row has no guard: %t, while %d is in effect", got[1].When == nil, n)
		}
		if got := Entering(1, 0, 5, rows); (got[0].To == 5) != on || rows[0].To != 1 {
			t.Errorf("the row enters %d while %d is in effect", got[0].To, n)
		}
	}
}

// TestReach checks that a change is reached only where it would make a difference.
func TestReach(t *testing.T) {
	with(t, 0, true)
	rows := make([]row, 2)
	WithoutRow(1, 0, rows)
	Unguarded(2, 0, rows)
	reached := func(do func(), want ...int) {
		t.Helper()
		Begin()
		do()
		for n := 1; n <= 4; n++ {
			if reach.in[n] != slices.Contains(want, n) {
				t.Errorf("change %d is reached: %t", n, reach.in[n])
			}
		}
	}
	reached(func() {})
	reached(func() { Or(3, true); And(4, false) })
	reached(func() { Or(3, false); And(4, true) }, 3, 4)
	reached(func() { Row(&rows[0], true) }, 1)
	reached(func() { Row(&rows[0], false) }, 2)
	reached(func() { Row(&rows[1], true) })
}
