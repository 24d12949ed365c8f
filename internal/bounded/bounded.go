// Package bounded limits how often something is logged, and counts what was left out.
package bounded

import (
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Limiter is safe for concurrent use.
type Limiter struct {
	limiter *rate.Limiter
	leftOut atomic.Uint64
}

// New returns a limiter for so many a second, with so many at once.
func New(perSecond float64, burst int) *Limiter {
	return &Limiter{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// Allow reports whether one more is within the limit, and how many were not since the last one that
// was.
func (l *Limiter) Allow() (ok bool, leftOut uint64) {
	if !l.limiter.Allow() {
		l.leftOut.Add(1)
		return false, 0
	}
	return true, l.leftOut.Swap(0)
}
