package kv

import "time"

// LinkStats are the measurements of the path to a holder on another node: the time to its first
// block and the rate of the following ones. They expire when not renewed, since other traffic
// shares the path. The zero value has no measurements.
type LinkStats struct {
	latency  Rate // fetches per second: the inverse of the latency
	rate     Rate // bytes per second, after the first ones
	measured time.Time
}

const (
	// linkTTL is how long a measurement is valid.
	linkTTL = 30 * time.Second
	// linkProbeBlocks is the number of blocks fetched over an unmeasured path: one for the latency,
	// three for the rate.
	linkProbeBlocks = 4
)

// FetchSample is the measurement of one fetch.
type FetchSample struct {
	Blocks     int // leading blocks that arrived
	BlockBytes int
	Bytes      int64         // received, including those of useless blocks
	FirstBytes int64         // part of Bytes that arrived first
	First      time.Duration // time until the first bytes, or until the end if none arrived
	All        time.Duration
}

// Add adds a measurement. A fetch whose bytes all arrived at once says little about the rate, and
// an empty one nothing. If the rate is unknown, such a fetch counts as one block over its total
// time. An empty path thus never looks fast.
func (l *LinkStats) Add(f FetchSample, now time.Time) {
	l.expire(now)
	l.measured = now
	l.latency.Add(1, f.First)
	if f.Bytes > f.FirstBytes {
		l.rate.Add(float64(f.Bytes-f.FirstBytes), f.All-f.First)
	} else if l.rate.PerSecond() == 0 {
		l.rate.Add(float64(f.BlockBytes), f.All)
	}
}

func (l *LinkStats) expire(now time.Time) {
	if now.Sub(l.measured) > linkTTL {
		*l = LinkStats{}
	}
}

// Fresh reports whether there is a measurement that has not expired.
func (l *LinkStats) Fresh(now time.Time) bool { l.expire(now); return !l.measured.IsZero() }

// Path returns the path for RestoreCost.
func (l *LinkStats) Path(name string, now time.Time) Path {
	l.expire(now)
	latency, _ := l.latency.Time(1)
	return Path{Name: name, Rate: l.rate, Latency: seconds(latency), ProbeBlocks: linkProbeBlocks}
}
