package turns

import "testing"

// TestPolicies checks that higher classes have more weight and earlier deadlines.
func TestPolicies(t *testing.T) {
	for c := Class(1); c < 3; c++ {
		if Weight(c+1) <= Weight(c) {
			t.Errorf("class %d has weight %v, and class %d %v", c, Weight(c), c+1, Weight(c+1))
		}
	}
	if first, each := Due(1); first != 0 || each != 0 {
		t.Errorf("tokens of batch requests are due after %v and %v", first, each)
	}
	first, each := Due(3)
	if f, e := Due(2); first >= f || each >= e || each <= 0 {
		t.Errorf("interactive %v and %v, standard %v and %v", first, each, f, e)
	}
	if w := Weight(0); w != 1 {
		t.Errorf("weight %v without a class", w)
	}
}
