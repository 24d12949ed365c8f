package kv

import "time"

// Link is the measured way to a holder of blocks on another node: how long the first one takes to come, and how fast the others follow. It forgets
// what it has not measured anew for a while, since others use the way too. The zero value knows nothing.
type Link struct {
	start    Rate // fetches
	rate     Rate // bytes, after the first ones
	measured time.Time
}

const (
	linkHolds = 30 * time.Second // a measurement
	linkTry   = 4                // blocks that a way is tried with that was not measured: one for the latency, three for the rate
)

// Fetch is one use of a Link.
type Fetch struct {
	Blocks     int // leading ones that came
	BlockBytes int
	Bytes      int64         // that came, with those that are of no use
	FirstBytes int64         // of them, that came first
	First      time.Duration // until these came, or until the end where none did
	All        time.Duration
}

// Add takes a measurement. A fetch of which all came at once says little of the rate, and one that brought nothing says nothing: what it took counts as if it were
// of one block all the same where nothing better is known, so that a way that brings nothing is not taken for a fast one.
func (l *Link) Add(f Fetch, now time.Time) {
	l.expire(now)
	l.measured = now
	l.start.Add(1, f.First)
	if f.Bytes > f.FirstBytes {
		l.rate.Add(float64(f.Bytes-f.FirstBytes), f.All-f.First)
	} else if l.rate.PerSecond() == 0 {
		l.rate.Add(float64(f.BlockBytes), f.All)
	}
}

func (l *Link) expire(now time.Time) {
	if now.Sub(l.measured) > linkHolds {
		*l = Link{}
	}
}

// Known reports whether it was measured of late.
func (l *Link) Known(now time.Time) bool { l.expire(now); return !l.measured.IsZero() }

// Path is the way as RestoreQuestion asks for it.
func (l *Link) Path(name string, now time.Time) Path {
	l.expire(now)
	latency, _ := l.start.Time(1)
	return Path{Name: name, Rate: l.rate, Latency: seconds(latency), Try: linkTry}
}
