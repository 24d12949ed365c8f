package workload

import (
	"math"
	"math/rand/v2"
)

// gamma returns a number of a gamma distribution with scale 1: Marsaglia and Tsang, "A Simple Method for
// Generating Gamma Variables", 2000.
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// weibull returns a number of a Weibull distribution with scale 1.
func weibull(r *rand.Rand, shape float64) float64 { return math.Pow(r.ExpFloat64(), 1/shape) }

// mix returns a number that depends on all of its arguments (the finalizer of SplitMix64).
func mix(parts ...uint64) (h uint64) {
	for _, p := range parts {
		h += p + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
