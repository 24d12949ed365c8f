// Package bounded limits the rate of log lines and counts the omitted ones.
package bounded

import (
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Limiter limits a rate. It is safe for concurrent use.
type Limiter struct {
	limiter *rate.Limiter
	omitted atomic.Uint64
}

// New returns a limiter with the given rate per second and burst.
func New(perSecond float64, burst int) *Limiter {
	return &Limiter{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// Allow reports whether one more event is within the limit, and returns the number of events
// omitted since the last allowed one.
func (l *Limiter) Allow() (ok bool, omitted uint64) {
	if !l.limiter.Allow() {
		l.omitted.Add(1)
		return false, 0
	}
	return true, l.omitted.Swap(0)
}
