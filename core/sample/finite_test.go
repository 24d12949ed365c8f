package sample

import (
	"math"
	"testing"
)

// TestNonFiniteLogitsAreReported checks that a single non-finite logit is found at any position and
// with any parameters, and that the largest finite numbers are not reported.
func TestNonFiniteLogitsAreReported(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	extremes := []float32{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0,
		float32(math.Copysign(0, -1))}
	params := []Params{{}, {Temperature: 1, TopP: 0.9}, {Logprobs: true, TopLogprobs: 3}, {Banned: []uint32{5}},
		{LogitBias: map[uint32]float32{5: 3}}}
	for _, n := range []int{1, 3, 7, 8, 9, 16, 21} {
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = extremes[i%len(extremes)]
		}
		for _, p := range params {
			if Choose(logits, p, nil, nil, 1).NotFinite {
				t.Errorf("%d finite logits, %+v: reported as not finite", n, p)
			}
		}
		for at := range logits {
			for _, bad := range []float32{nan, inf, -inf, math.Float32frombits(0x7f800001),
				math.Float32frombits(0xffffffff)} {
				before := logits[at]
				logits[at] = bad
				for _, p := range params {
					if !Choose(logits, p, nil, nil, 1).NotFinite {
						t.Errorf("%d logits with %v at %d, %+v: not reported", n, bad, at, p)
					}
				}
				logits[at] = before
			}
		}
	}
}

// TestInfiniteBiasIsNotReported checks that a request's own bias does not count as a fault of the
// model.
func TestInfiniteBiasIsNotReported(t *testing.T) {
	got := Choose([]float32{math.MaxFloat32, 1}, Params{LogitBias: map[uint32]float32{0: math.MaxFloat32}}, nil, nil, 1)
	if got.NotFinite || got.ID != 0 {
		t.Errorf("%+v", got)
	}
}
