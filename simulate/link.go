package simulate

import (
	"math"
	"time"
)

// Link is what adapters and KV blocks are copied over, one copy after another. One without a bandwidth takes only
// the latency.
type Link struct {
	BytesPerSecond float64
	Latency        time.Duration // of each copy
}

// link is a link with the time from which on it is free.
type link struct {
	Link
	sim  *simulation
	free time.Time
	slow slowdown // of copies that begin from now on
}

// begin takes the link for a copy, and returns when the copy begins and ends.
func (l *link) begin(bytes int64) (begins, ends time.Time) {
	begins = l.sim.key.at
	if l.free.After(begins) {
		begins = l.free
	}
	l.free = begins.Add(l.time(bytes))
	return begins, l.free
}

// time returns how long a copy takes once it begins.
func (l *link) time(bytes int64) time.Duration {
	if l.BytesPerSecond == 0 {
		return l.Latency
	}
	return l.Latency + time.Duration(math.Round(float64(bytes)/l.BytesPerSecond*l.slow.factor()*1e9))
}

// copy calls a function when a copy over the link has ended.
func (l *link) copy(bytes int64, ended func()) {
	_, ends := l.begin(bytes)
	l.sim.after(ends.Sub(l.sim.key.at), ended)
}
