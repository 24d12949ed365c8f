package sample

import (
	"math"
	"testing"
)

// TestNotFinite: one logit that is no number, wherever it is and whatever is asked for, is found;
// the largest numbers are no such.
func TestNotFinite(t *testing.T) {
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
				t.Errorf("%d finite logits, %+v: taken for NaN", n, p)
			}
		}
		for at := range logits {
			for _, bad := range []float32{nan, inf, -inf, math.Float32frombits(0x7f800001),
				math.Float32frombits(0xffffffff)} {
				before := logits[at]
				logits[at] = bad
				for _, p := range params {
					if !Choose(logits, p, nil, nil, 1).NotFinite {
						t.Errorf("%d logits with %v at %d, %+v: not found", n, bad, at, p)
					}
				}
				logits[at] = before
			}
		}
	}
}

// TestInfiniteBias: what a request's own bias makes of logits is not the model's fault.
func TestInfiniteBias(t *testing.T) {
	got := Choose([]float32{math.MaxFloat32, 1}, Params{LogitBias: map[uint32]float32{0: math.MaxFloat32}}, nil, nil, 1)
	if got.NotFinite || got.ID != 0 {
		t.Errorf("%+v", got)
	}
}
