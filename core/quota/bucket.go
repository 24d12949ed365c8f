package quota

import (
	"math"
	"time"
)

// bucket is a token bucket for a limit per minute. Its level may be negative.
type bucket struct {
	limit   int64 // per minute; 0: no limit
	level   float64
	updated time.Time
}

// refill adds what accrued until now. If the limit changes, the used amount stays the same.
func (b *bucket) refill(now time.Time, limit int64) {
	switch {
	case b.limit == 0:
		b.level = float64(limit)
	case b.limit != limit:
		b.level += float64(limit - b.limit)
	}
	if b.limit != 0 && now.After(b.updated) {
		b.level += float64(limit) * now.Sub(b.updated).Minutes()
	}
	if b.limit == 0 || now.After(b.updated) {
		b.updated = now
	}
	b.limit, b.level = limit, min(b.level, float64(limit))
}

// timeUntil returns the time until the level reaches n.
func (b *bucket) timeUntil(n float64) time.Duration {
	if b.limit == 0 || b.level >= n {
		return 0
	}
	return time.Duration(math.Ceil((n - b.level) / float64(b.limit) * float64(time.Minute)))
}

// available returns the amount that may be used now.
func (b *bucket) available() int64 { return int64(max(0, math.Floor(b.level+1e-9))) }
