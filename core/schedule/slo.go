package schedule

import (
	"fmt"
	"math"
	"time"

	"troupe/core/units"
)

// slo is the policy that follows the demand so that models meet their SLO; see doc.go.
type slo struct{}

func (slo) want(v view) Want {
	if w, ok := v.fixed(); ok {
		return w
	}
	switch d := v.Demand; {
	case v.Priority == Batch:
		return v.fill()
	case d.idle(v.now, v.options):
		return v.fewer()
	}
	if n, why := v.tooFew(); n > v.have {
		return Want{n, Missed, why}
	}
	if w, ok := v.spike(); ok {
		return w
	}
	if why, measured := v.tight(); why != "" {
		if measured {
			v.overloaded()
		}
		return Want{max(v.have, v.up+1), Headroom, why}
	}
	v.carried()
	return v.fewer()
}

// fill returns how many replicas have sequences of a batch model for all of their places.
func (v view) fill() Want {
	if places := v.Demand.Places; places > 0 {
		if n := v.Demand.sequences() / places; n > v.have {
			return Want{n, Fill, units.Count(v.Demand.sequences(), "sequence") + ", and a replica has " +
				units.Count(places, "place")}
		}
	}
	return v.fewer()
}

// tooFew returns the number of replicas that meet the SLO at the present rate, or less if those there are
// enough. The profile is used if there is one, unless what was measured says otherwise. Else the number is proportional
// to the time that is missed.
func (v view) tooFew() (n int, why string) {
	d, o := v.Demand, v.options
	ratio, what := 0.0, ""
	for _, t := range []struct {
		name      string
		p99, most time.Duration
		least     Average
	}{{"TTFT", d.TTFT, v.SLO.TTFT, v.memory.Learned.TTFT}, {"TPOT", d.TPOT, v.SLO.TPOT, v.memory.Learned.TPOT}} {
		if r := over(t.p99, t.most); r > ratio && excess(t.p99, t.most, t.least) > 1 {
			ratio, what = r, fmt.Sprintf("the P99 of %s is %s, and the SLO is %s", t.name, t.p99, t.most)
		}
	}
	if d.profiled() && d.Rate >= 0 && !v.proven() {
		rate := d.usual(o, v.memory.Learned.Rate)
		if d.Spikes(o) {
			rate = d.Recent
		}
		if by := d.replicasFor(rate); by > v.have {
			return by, fmt.Sprintf("%.3g requests/s, and %s %.3g within the SLO, by the profile", rate,
				units.Count(v.have, "replica")+units.Verb(v.have, " serves", " serve"), d.serves(v.have))
		}
	}
	// The window must not reach back before the last replica served, or the same misses would be counted twice.
	if certain := v.certain(ratio > 1); !certain || v.have > v.up || v.now.Sub(v.settled) < o.Window {
		return 0, ""
	}
	v.overloaded()
	guess := ceil(float64(v.up) * min(ratio, 2))
	if places := v.leastFor(guess); places > 0 {
		guess = min(guess, max(places, v.up+v.up/cautious))
	}
	return max(v.up+1, guess), what
}

// proof is the number of requests that show that the SLO is met. If a tenth of them missed it, one of so few would not
// with a probability of 0.12.
const proof = 20

// proven reports whether the present replicas meet the SLO as measured, which says more than a profile: all of them
// have served for a window, its requests were within the SLO, none waits, and the rate does not rise.
func (v view) proven() bool {
	d, o := v.Demand, v.options
	met := func(p99, most time.Duration) bool { return most <= 0 || p99 >= 0 && p99 <= most }
	return v.have == v.up && v.now.Sub(v.settled) >= o.Window && d.Rate*o.Window.Seconds() >= proof &&
		d.Waiting+d.Pending == 0 && d.rising(o) <= steady && met(d.TTFT, v.SLO.TTFT) && met(d.TPOT, v.SLO.TPOT)
}

// cautious is the number of replicas for each of which one is added at once, if their places should be enough by the
// prediction. Among the few requests of a window, the P99 can be far over the SLO by chance.
const cautious = 4

// spike returns the number of replicas for a spike, and whether there is one. Others leave for them only if the present
// ones may be too few: they lack the places, or the time of their devices, as far as that is known.
func (v view) spike() (w Want, ok bool) {
	d, o := v.Demand, v.options
	rising := d.rising(o)
	n := max(v.up+1, ceil(float64(v.up)*rising))
	if !d.Spikes(o) || v.now.Sub(v.memory.Changed) < o.Window || n <= v.have {
		return w, false
	}
	w = Want{n, Missed, fmt.Sprintf("a spike: %.3g requests/s, after %.3g", d.Recent, d.Rate)}
	wait, predicted := v.wait(v.up, rising)
	places := o.DownAt * float64(d.Places*v.up)
	if !(predicted && wait > o.Headroom) && float64(d.sequences())*rising < places && d.Utilization*rising < 1 {
		w.Urgency = Headroom
	}
	return w, true
}

// leastFor returns the least number of replicas up to a limit with which the wait for a place, as predicted for the
// present load, leaves headroom, or 0 if that is unknown or more than the limit.
func (v view) leastFor(limit int) int {
	load, known := v.memory.Learned.Sequences.value()
	if !known || load <= 0 {
		return 0
	}
	now := float64(v.Demand.sequences())
	more := max(spare, (now-2*math.Sqrt(now))/load) // two standard deviations may be chance
	for n := 1; n <= limit; n++ {
		if wait, known := v.wait(n, more); !known || wait <= v.options.Headroom {
			return n * number(known)
		}
	}
	return 0
}

// certain reports whether a miss is more than chance: sequences wait, or the P99 is one of at least 100 requests, or it
// has been over the SLO for a second window.
func (v view) certain(missed bool) bool {
	d := v.Demand
	if !missed {
		v.memory.MissedSince = time.Time{}
		return false
	}
	if v.memory.MissedSince.IsZero() {
		v.memory.MissedSince = v.now
	}
	return d.Waiting+d.Pending > 0 || missShare*d.Rate*v.options.Window.Seconds() >= 1 ||
		v.now.Sub(v.memory.MissedSince) >= v.options.Window
}

// tight returns why there is little headroom, or nothing, and whether that was measured or predicted.
func (v view) tight() (why string, measured bool) {
	d, o := v.Demand, v.options
	if v.have > v.up || v.now.Sub(v.settled) < o.Window {
		return "", false
	}
	rising, l := d.rising(o), v.memory.Learned
	places := float64(d.Places * v.up)
	wait, predicted := v.wait(v.up, 1)
	many := !predicted || missShare*d.Rate*o.Window.Seconds() >= 1
	switch {
	case places > 0 && float64(d.Waiting) >= o.QueueAt*places:
		return v.queueing(), true
	case !predicted && places > 0 && float64(d.sequences()) >= o.UpAt*places:
		return units.Count(d.sequences(), "sequence") + " in " + units.Count(int(places), "place"), true
	case predicted && wait > o.Headroom:
		return fmt.Sprintf("the wait for a place would take %.0f%% of the TTFT", 100*wait), false
	case d.KV > o.KVFull:
		return fmt.Sprintf("%.0f%% of the KV blocks are in use", 100*d.KV), true
	case excess(d.TTFT, v.SLO.TTFT, l.TTFT)*rising > o.Headroom && d.Running > 0 && many:
		return fmt.Sprintf("the P99 of TTFT is %s, and the SLO is %s", d.TTFT, v.SLO.TTFT), true
	case excess(d.TPOT, v.SLO.TPOT, l.TPOT)*rising > o.Headroom && d.Running > 0 && many:
		return fmt.Sprintf("the P99 of TPOT is %s, and the SLO is %s", d.TPOT, v.SLO.TPOT), true
	}
	return "", false
}

// overloadMargin is the share of the rate with too little headroom that replicas carry for sure.
const overloadMargin = 0.9

// steady is the highest ratio of the recent rate to that of the window at which the rate does not rise.
const steady = 1.1

// rising returns by how much the load is expected to rise, since the rate of the window is an average. Two standard
// deviations of the few arrivals in the recent window may be chance.
func (d Demand) rising(o Options) float64 {
	if d.Rate <= 0 || d.Recent <= d.Rate {
		return 1
	}
	arrivals := d.Recent * o.RecentWindow.Seconds()
	return max(1, (arrivals-2*math.Sqrt(arrivals))/(d.Rate*o.RecentWindow.Seconds()))
}

// usual returns the average rate of some minutes, unless the arrivals of the window are more by over two standard
// deviations.
func (d Demand) usual(o Options, average Average) float64 {
	usual, known := average.value()
	if !known {
		return d.Rate
	}
	arrivals := d.Rate * o.Window.Seconds()
	return max(usual, (arrivals-2*math.Sqrt(max(0, arrivals)))/o.Window.Seconds())
}

// overloaded notes the rate at which the replicas have too little headroom. While the rate rises, that is only
// a prediction, unless a P99 has had too little by itself.
func (v view) overloaded() {
	d, o, l := v.Demand, v.options, v.memory.Learned
	rate := max(d.Rate, d.Recent) / float64(v.up)
	late := max(excess(d.TTFT, v.SLO.TTFT, l.TTFT), excess(d.TPOT, v.SLO.TPOT, l.TPOT))
	if d.rising(o) > steady && late <= o.Headroom {
		return
	}
	if rate > 0 && (v.memory.Overload == 0 || rate < v.memory.Overload) {
		v.memory.Overload = rate
	}
}

// carried notes that the replicas are enough at the present rate.
func (v view) carried() {
	if v.memory.Overload > 0 && v.now.Sub(v.settled) >= v.options.Window {
		v.memory.Overload = max(v.memory.Overload, v.Demand.Rate/float64(v.up))
	}
}

// fewer returns one replica fewer, if the remaining ones can carry the load and that has been so for a
// while, and the present number otherwise. The load that each of those would carry decides, not the
// present one.
func (v view) fewer() Want {
	same := Want{v.have, Headroom, "there are enough replicas"}
	switch {
	case v.idle > 0 && v.now.Sub(v.memory.Changed) >= 2*v.options.RecentWindow && v.needed(v.up) == "":
		return Want{v.have - v.idle, Headroom, carry(v.up)}
	case v.have > v.up:
		same.Why = "some replicas do not serve yet"
		return same
	case v.up <= max(1, v.Min): // the time without a request decides about the last one
		return same
	}
	if why := v.needed(v.up - 1); why != "" {
		v.memory.LowSince = time.Time{}
		same.Why = why
		return same
	}
	if v.memory.LowSince.IsZero() {
		v.memory.LowSince = v.now
	}
	if low := v.now.Sub(v.memory.LowSince); low < v.options.DownAfter {
		same.Why = units.Count(v.up-1, "replica") + " would have been enough for " + low.Round(time.Second).String()
		return same
	}
	v.memory.LowSince = time.Time{} // the next one must be surplus for as long
	return Want{v.have - 1, Headroom, carry(v.up - 1)}
}

// carry returns that so many replicas are enough.
func carry(replicas int) string {
	return units.Count(replicas, "replica") + units.Verb(replicas, " carries", " carry") + " the load"
}

// queueing returns how many sequences wait, and for how many places.
func (v view) queueing() string {
	n := v.Demand.Waiting
	return units.Count(n, "sequence") + units.Verb(n, " waits", " wait") + " for " +
		units.Count(v.Demand.Places*v.up, "place")
}

// spare is the multiple of the average load that the replicas that stay must carry.
const spare = 1.1

// needed returns why a number of replicas is too few, or nothing. With unknown figures, it is.
func (v view) needed(replicas int) string {
	d, o := v.Demand, v.options
	left, others := float64(replicas), units.Count(replicas, "replica")
	more := d.rising(o) * float64(v.up) / left // load of each of them, over the present one
	l := v.memory.Learned
	rate := d.usual(o, l.Rate) * d.rising(o)
	wait, predicted := v.wait(replicas, spare)
	switch {
	case d.Rate < 0:
		return "the rate of requests is unknown"
	case d.Places == 0 && !d.profiled() && d.Utilization < 0:
		return "what a replica can carry is unknown"
	case predicted && wait > o.Headroom:
		return "requests would wait too long for a place on " + others
	case !predicted && d.Places > 0 && float64(d.sequences()) > o.DownAt*float64(d.Places)*left:
		n := d.sequences()
		return units.Count(n, "sequence") + units.Verb(n, " is", " are") + " too many for " + others
	case d.profiled() && max(spare*rate, d.Rate) > d.serves(replicas):
		return fmt.Sprintf("%.3g requests/s are too many for %s, by the profile", max(rate, d.Rate), others)
	case v.memory.Overload > 0 && max(rate, d.Rate) > overloadMargin*v.memory.Overload*left:
		return fmt.Sprintf("%.3g requests/s were too many for %s before", max(rate, d.Rate), others)
	case d.KV*more > o.KVFull*o.Headroom:
		return "the KV blocks of the remaining replicas would be full"
	case excess(d.TTFT, v.SLO.TTFT, l.TTFT)*l.TTFT.growth(more) > o.DownHeadroom && d.Rate > 0:
		return "the P99 of TTFT would have little headroom"
	case excess(d.TPOT, v.SLO.TPOT, l.TPOT)*l.TPOT.growth(more) > o.DownHeadroom && d.Rate > 0:
		return "the P99 of TPOT would have little headroom"
	case d.Places == 0 && !d.profiled() && d.Utilization >= o.ParkBelow:
		return fmt.Sprintf("%.0f%% of its devices are in use", 100*d.Utilization)
	}
	return ""
}

// over returns a time as a share of the most that it may be, or 0 if either is not known or required.
func over(p99, most time.Duration) float64 {
	if p99 < 0 || most <= 0 {
		return 0
	}
	return float64(p99) / float64(most)
}

// ceil rounds up, with a tolerance for rounding errors, to at most a million.
func ceil(x float64) int { return int(min(math.Ceil(x-1e-9), 1e6)) }
