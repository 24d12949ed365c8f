package schedule

import (
	"math"
	"time"
)

// byChance is the probability below which so many arrivals do not count as chance. With a higher one, the Poisson
// arrivals of a model have spikes on many days.
const byChance = 1e-5

// unlikely reports whether Poisson arrivals with a mean are very unlikely to be so many, by Chernoff's bound:
// P(X >= n) <= exp(-mean) · (e · mean / n)ⁿ for n > mean.
func unlikely(arrivals, mean float64) bool {
	return arrivals > mean && arrivals*math.Log(arrivals/(math.E*mean))+mean >= -math.Log(byChance)
}

// Spikes reports whether the rate of arrivals has risen at once, by the options.
func (d Demand) Spikes(o Options) bool {
	o = o.withDefaults()
	arrivals, usual := d.Recent*o.RecentWindow.Seconds(), d.Rate*o.RecentWindow.Seconds()
	return d.Rate > 0 && d.Recent > o.SpikeFactor*d.Rate && arrivals >= o.SpikeArrivals &&
		unlikely(arrivals, usual)
}

// Due returns the first time after that of the snapshot at which a backoff of its plan ends, a start of it
// times out, or replicas may leave for a model that wakes; zero: there is none. Plans in between do not
// depend on these times.
func Due(s Snapshot, p Plan) (first time.Time) {
	w := newWorld(Checked(s))
	sooner := func(at time.Time) {
		if at.After(s.At) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, a := range p.Memory.Avoid {
		sooner(a.Until)
	}
	wakes := make(map[string]bool)
	for _, u := range p.Unmet {
		if u.Urgency == Wake {
			wakes[u.Model] = true
		}
	}
	for _, m := range w.models {
		if wakes[m.Name] && m.WakeWait >= 0 && !m.Demand.Oldest.IsZero() {
			sooner(m.wakeBy())
		}
		for _, r := range m.replicas {
			switch {
			case r.Progress < Up:
				sooner(w.deadline(r).Add(1))
			case len(wakes) > 0:
				sooner(r.Since.Add(w.residence(m)))
			}
		}
	}
	return first
}
