package schedule

import "time"

// Spikes reports whether the rate of arrivals has risen at once, by the options.
func (d Demand) Spikes(o Options) bool {
	o = o.withDefaults()
	return d.Rate > 0 && d.Recent > o.SpikeFactor*d.Rate && d.Recent*o.RecentWindow.Seconds() >= o.SpikeArrivals
}

// Due returns the first time after that of the snapshot at which a backoff of its plan ends, or a start of it
// times out; zero: there is none. Plans in between do not depend on these times.
func Due(s Snapshot, p Plan) (first time.Time) {
	w := newWorld(check(s))
	sooner := func(at time.Time) {
		if at.After(s.At) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, a := range p.Memory.Avoid {
		sooner(a.Until)
	}
	for _, m := range w.models {
		for _, r := range m.replicas {
			if r.Progress < Up {
				sooner(r.Since.Add(w.startLimit(m) + 1))
			}
		}
	}
	return first
}
