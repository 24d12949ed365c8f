package plan

import "testing"

func TestCount(t *testing.T) {
	for _, tc := range []struct{ replicas, least, most, want, low, high int }{
		{0, 0, 0, 1, 1, 1},
		{3, 0, 0, 3, 3, 3},
		{3, 1, 4, 3, 1, 4},
		{1, 2, 4, 2, 2, 4},
		{9, 2, 4, 4, 2, 4},
		{1, 2, 0, 2, 2, 2},
		{3, 0, 2, 2, 2, 2},
		{3, 0, 5, 3, 3, 5},
		{3, 4, 2, 4, 4, 4}, // the least wins
	} {
		low, high := Bounds(tc.replicas, tc.least, tc.most)
		if got := Count(tc.replicas, tc.least, tc.most); got != tc.want || low != tc.low || high != tc.high {
			t.Errorf("%+v: %d within %d and %d", tc, got, low, high)
		}
	}
}
