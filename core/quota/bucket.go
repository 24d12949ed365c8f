package quota

import (
	"math"
	"time"
)

// bucket holds what may be used at once of a limit by minute. It may be in debt.
type bucket struct {
	limit int64 // a minute; 0: none
	level float64
	at    time.Time
}

// fill brings the bucket up to now. A limit that changed keeps what is missing.
func (b *bucket) fill(now time.Time, limit int64) {
	switch {
	case b.limit == 0:
		b.level = float64(limit)
	case b.limit != limit:
		b.level += float64(limit - b.limit)
	}
	if b.limit != 0 && now.After(b.at) {
		b.level += float64(limit) * now.Sub(b.at).Minutes()
	}
	if b.limit == 0 || now.After(b.at) {
		b.at = now
	}
	b.limit, b.level = limit, min(b.level, float64(limit))
}

// after returns how long it takes until there are n.
func (b *bucket) after(n float64) time.Duration {
	if b.limit == 0 || b.level >= n {
		return 0
	}
	return time.Duration(math.Ceil((n - b.level) / float64(b.limit) * float64(time.Minute)))
}

// left returns what may be used now.
func (b *bucket) left() int64 { return int64(max(0, math.Floor(b.level+1e-9))) }
