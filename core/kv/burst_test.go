package kv

import "testing"

// TestNeeds: places are made ahead for as many blocks as were taken at once, as long as that is not long ago, and for half of the pool at most.
func TestNeeds(t *testing.T) {
	type seen struct{ steps, allocated uint64 }
	for name, tc := range map[string]struct {
		seen []seen
		want float64
	}{
		"nothing":                  {nil, 0.9},
		"little at once":           {[]seen{{1, 8}, {16, 10}, {17, 18}, {33, 20}}, 0.9},
		"a prompt":                 {[]seen{{1, 0}, {2, 25}}, 0.75},
		"in several steps":         {[]seen{{1, 10}, {2, 20}, {3, 25}, {20, 25}, {21, 30}}, 0.75},
		"one after the other":      {[]seen{{16, 25}, {32, 50}, {48, 75}}, 0.75},
		"all":                      {[]seen{{1, 90}}, 0.5},
		"it is expected again":     {[]seen{{1, 25}, {1000, 25}, {1024, 25}, {2047, 25}}, 0.75},
		"but not for ever":         {[]seen{{1, 25}, {1000, 25}, {1024, 25}, {2048, 25}}, 0.9},
		"an idle time says little": {[]seen{{5000, 0}, {5001, 25}, {5002, 25}}, 0.75},
	} {
		var n Needs
		for _, s := range tc.seen {
			n.See(s.steps, s.allocated)
		}
		if got := n.Watermark(0.9, 100); got != tc.want {
			t.Errorf("%s: above %v, not %v", name, got, tc.want)
		}
	}
	if got := (&Needs{now: 3}).Watermark(0.4, 0); got != 0.4 {
		t.Errorf("of no blocks, above %v", got)
	}
}
