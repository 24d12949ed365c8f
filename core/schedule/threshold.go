package schedule

import (
	"fmt"
	"time"

	"troupe/core/units"
)

// threshold is the policy of an autoscaler that knows no SLO. It changes the number of replicas by one: up
// when more than UpAt of the places or of the KV blocks are in use or sequences queue for a moment, and
// down when the remaining replicas would have used at most DownAt for DownAfter. It waits for the residence
// after each change.
type threshold struct{}

// upAfter is how long the load must be too high.
const upAfter = 5 * time.Second

func (threshold) want(v view) Want {
	if w, ok := v.fixed(); ok || v.have > v.up {
		v.memory.HighSince, v.memory.LowSince = time.Time{}, time.Time{}
		if ok {
			return w
		}
		return Want{v.have, Headroom, "some replicas do not serve yet"}
	}
	high, low, why := v.compareUse()
	trackSince(&v.memory.HighSince, v.now, high)
	trackSince(&v.memory.LowSince, v.now, low)
	over := high && v.now.Sub(v.memory.HighSince) >= upAfter
	if over && v.queues() {
		v.memory.Queued = max(v.memory.Queued, v.Demand.Rate/float64(v.up))
	}
	since := v.now.Sub(v.memory.Changed)
	switch {
	case !v.memory.Changed.IsZero() && since < v.options.Residence, v.now.Sub(v.settled) < v.options.Residence:
	case over:
		v.memory.HighSince, v.memory.LowSince = time.Time{}, time.Time{}
		return Want{v.have + 1, Headroom, why}
	case low && v.up > max(1, v.Min) && v.now.Sub(v.memory.LowSince) >= v.options.DownAfter:
		v.memory.HighSince, v.memory.LowSince = time.Time{}, time.Time{}
		return Want{v.have - 1, Headroom, why}
	}
	return Want{v.have, Headroom, why}
}

// queues reports whether too many sequences wait for places.
func (v view) queues() bool {
	places := float64(v.Demand.Places * v.up)
	return places > 0 && float64(v.Demand.Waiting) >= v.options.QueueAt*places
}

// compareUse compares the load with the serving replicas, and with one fewer. Without known places and KV
// blocks it is neither high nor low.
func (v view) compareUse() (high, low bool, why string) {
	d, n := v.Demand, float64(v.up)
	places := d.Places * v.up
	use, of := d.KV, "KV blocks"
	if by := ratio(float64(d.sequences()), float64(places)); places > 0 && by >= use {
		use, of = by, "places"
	}
	why = fmt.Sprintf("%.0f%% of the %s are in use", 100*use, of)
	switch {
	case use < 0:
		return false, false, "the load is unknown"
	case v.queues():
		return true, false, v.queueing()
	case use >= v.options.UpAt:
		return true, false, why
	case use*n > v.options.DownAt*(n-1) || places == 0:
		return false, false, why
	case v.memory.Queued > 0 && d.Rate > v.options.DownAt*v.memory.Queued*(n-1):
		return false, false, fmt.Sprintf("%s, but %.3g requests/s are too many for %s", why, d.Rate,
			units.Count(v.up-1, "replica"))
	}
	return false, true, why
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// trackSince sets t to the time since which a condition holds, or to zero if it does not.
func trackSince(t *time.Time, now time.Time, holds bool) {
	switch {
	case !holds:
		*t = time.Time{}
	case t.IsZero():
		*t = now
	}
}
