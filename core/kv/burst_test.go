package kv

import "testing"

// TestBurstEstimatorLowersWatermark checks that the watermark leaves room for the largest recent
// burst, up to half of the pool.
func TestBurstEstimatorLowersWatermark(t *testing.T) {
	type seen struct{ steps, allocated uint64 }
	for name, tc := range map[string]struct {
		seen []seen
		want float64
	}{
		"no observations":             {nil, 0.9},
		"small bursts":                {[]seen{{1, 8}, {16, 10}, {17, 18}, {33, 20}}, 0.9},
		"one long prompt":             {[]seen{{1, 0}, {2, 25}}, 0.75},
		"burst over several steps":    {[]seen{{1, 10}, {2, 20}, {3, 25}, {20, 25}, {21, 30}}, 0.75},
		"repeated bursts":             {[]seen{{16, 25}, {32, 50}, {48, 75}}, 0.75},
		"burst larger than the limit": {[]seen{{1, 90}}, 0.5},
		"burst still remembered":      {[]seen{{1, 25}, {1000, 25}, {1024, 25}, {2047, 25}}, 0.75},
		"burst forgotten":             {[]seen{{1, 25}, {1000, 25}, {1024, 25}, {2048, 25}}, 0.9},
		"burst after idle steps":      {[]seen{{5000, 0}, {5001, 25}, {5002, 25}}, 0.75},
	} {
		var n BurstEstimator
		for _, s := range tc.seen {
			n.Observe(s.steps, s.allocated)
		}
		if got := n.Watermark(0.9, 100); got != tc.want {
			t.Errorf("%s: watermark %v, want %v", name, got, tc.want)
		}
	}
	if got := (&BurstEstimator{current: 3}).Watermark(0.4, 0); got != 0.4 {
		t.Errorf("empty pool: watermark %v", got)
	}
}
