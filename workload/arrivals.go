package workload

import (
	"math"
	"math/rand/v2"
	"time"
)

// gap draws a gap between two arrivals, with mean 1.
func (l Load) gap(r *rand.Rand) float64 {
	switch {
	case l.CV == 0 || l.CV == 1:
		return r.ExpFloat64()
	case l.CV < 1e-4:
		return 1 // the shape would be too large for gamma
	}
	variance := l.CV * l.CV
	return gamma(r, 1/variance) * variance
}

// after returns the next arrival after one: the time until which Rate · gap arrivals are expected.
func (l Load) after(at time.Duration, gap float64) time.Duration {
	if l.Diurnal.Depth == 0 && len(l.Spikes) == 0 {
		return at + min(seconds(gap/l.Rate), l.Length)
	}
	low, step, end := at.Seconds(), gap/l.Rate, l.Length.Seconds()
	want := l.area(low) + step
	if l.area(end) <= want {
		return l.Length
	}
	high := low + step
	for ; l.area(high) < want; high += step {
		low, step = high, 2*step
	}
	for high-low > 1e-9*math.Max(1, high/1e5) { // the area grows with the time
		if middle := (low + high) / 2; l.area(middle) < want {
			low = middle
		} else {
			high = middle
		}
	}
	return max(at, seconds(high))
}

// area is the integral of the rate from 0 to a time in seconds, divided by Rate.
func (l Load) area(at float64) float64 {
	sum := l.Diurnal.area(at)
	for _, s := range l.Spikes {
		begin, end := s.At.Seconds(), (s.At + s.Length).Seconds()
		if at > begin {
			sum += (s.Factor - 1) * (l.Diurnal.area(math.Min(at, end)) - l.Diurnal.area(begin))
		}
	}
	return sum
}

// area is the integral of the relative rate from 0 to a time in seconds. The power of the raised cosine is a sum of
// cosines:
//
//	((1 + cos x)/2)ⁿ = (2n choose n)/4ⁿ · (1 + 2 · sum over k from 1 to n of (2n choose n-k)/(2n choose n) · cos kx)
func (d Diurnal) area(at float64) float64 {
	if d.Depth == 0 {
		return at
	}
	period := d.Period.Seconds()
	if period == 0 {
		period = (24 * time.Hour).Seconds()
	}
	turn := 2 * math.Pi / period
	return at + float64(2*d.Depth/turn*(d.waves(turn*(at-d.Peak.Seconds()))-d.waves(-turn*d.Peak.Seconds())))
}

// waves is the integral from 0 to an angle of the sum over k above, with half of its factor.
func (d Diurnal) waves(angle float64) (sum float64) {
	n, share := max(1, d.Sharpness), 1.0
	sin, cos := math.Sincos(angle)
	before, now := 0.0, sin // sines of (k-1) and k times the angle
	for k := 1; k <= n; k++ {
		share *= float64(n-k+1) / float64(n+k)
		sum += float64(share / float64(k) * now)
		before, now = now, float64(2*cos*now)-before
	}
	return sum
}
