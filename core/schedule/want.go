package schedule

import (
	"fmt"
	"math"
	"time"
)

// Urgency is how urgently a model wants a replica. A lower value comes first.
type Urgency uint8

// Urgencies.
const (
	Minimum  Urgency = iota // the model has fewer replicas than its minimum
	Wake                    // requests wait, and there is no replica
	Missed                  // the SLO is missed, or will be
	Headroom                // there is little headroom
	Fill                    // batch work that can use what is left
)

// String returns the name of the urgency.
func (u Urgency) String() string {
	return [...]string{"minimum", "wake", "SLO", "headroom", "batch"}[u]
}

// Want is how many replicas a model wants, by a policy. A policy never chooses devices.
type Want struct {
	Replicas int
	Urgency  Urgency // of those that are missing
	Why      string
}

// view is what a policy knows of a model.
type view struct {
	Model
	now     time.Time
	options Options
	memory  *ModelMemory
	have    int       // replicas that serve, start or are assigned, and need not leave
	up      int       // those that serve
	idle    int       // those that are assigned and have not begun
	settled time.Time // when the newest of those that serve began to
}

// want applies the thresholds. It updates what is remembered of the model.
func (v view) want() Want {
	w := v.byDemand()
	if w.Replicas > v.have {
		v.memory.LowSince = time.Time{}
	}
	switch {
	case w.Replicas < v.Min:
		return Want{v.Min, Minimum, fmt.Sprintf("at least %d replicas", v.Min)}
	case w.Replicas > v.Max:
		w.Replicas, w.Why = v.Max, w.Why+fmt.Sprintf("; at most %d replicas", v.Max)
	}
	if v.have < v.Min {
		w.Urgency = Minimum
	}
	return w
}

// byDemand returns the number of replicas for the demand, without the limits of the deployment.
func (v view) byDemand() Want {
	d := v.Demand
	idle := v.IdleAfter
	if idle == 0 {
		idle = v.options.IdleAfter
	}
	switch work := d.sequences(); {
	case v.have == 0 && work > 0:
		return Want{1, Wake, fmt.Sprintf("%d requests wait, and no replica serves", work)}
	case v.have == 0:
		return Want{0, Wake, "no request"}
	case work == 0 && v.Min == 0 && !d.Last.IsZero() && v.now.Sub(d.Last) >= idle:
		return Want{0, Wake, fmt.Sprintf("no request for %s", v.now.Sub(d.Last).Round(time.Second))}
	case v.up == 0:
		return Want{v.have, Wake, "its replicas do not serve yet"}
	case v.Priority == Batch:
		return v.fill()
	case d.idle(v.now, v.options):
		return v.fewer()
	}
	if n, why := v.tooFew(); n > v.have {
		return Want{n, Missed, why}
	}
	if why := v.tight(); why != "" {
		v.overloaded()
		return Want{max(v.have, v.up+1), Headroom, why}
	}
	v.carried()
	return v.fewer()
}

// fill returns how many replicas can be busy with the sequences of a batch model.
func (v view) fill() Want {
	if places := v.Demand.Places; places > 0 {
		n := max(1, ceil(float64(v.Demand.sequences())/float64(places)))
		if n > v.have {
			return Want{n, Fill, fmt.Sprintf("%d sequences, with %d places a replica", v.Demand.sequences(), places)}
		}
	}
	return v.fewer()
}

// tooFew returns the number of replicas that meet the SLO at the present rate, or less if those there are
// enough. The profile is used if there is one. Else the number is proportional to the time that is missed.
func (v view) tooFew() (n int, why string) {
	d, o := v.Demand, v.options
	ratio, what := 0.0, ""
	for _, t := range []struct {
		name      string
		p99, most time.Duration
	}{{"TTFT", d.TTFT, v.SLO.TTFT}, {"TPOT", d.TPOT, v.SLO.TPOT}} {
		if r := over(t.p99, t.most); r > ratio {
			ratio, what = r, fmt.Sprintf("P99 of %s is %s, and the SLO %s", t.name, t.p99, t.most)
		}
	}
	spike := d.Spikes(o)
	if d.Capacity > 0 && d.Rate >= 0 {
		rate := d.Rate
		if spike {
			rate = d.Recent
		}
		if by := ceil(rate / d.Capacity); by > v.have {
			return by, fmt.Sprintf("%.3g requests/s, and a replica serves %.3g within the SLO", rate, d.Capacity)
		}
	}
	if spike && v.now.Sub(v.memory.Changed) >= o.Window {
		return ceil(float64(v.up) * d.Recent / d.Rate),
			fmt.Sprintf("a spike: %.3g requests/s after %.3g", d.Recent, d.Rate)
	}
	// The window must not reach back before the last replica served, or the same misses would be counted twice.
	if ratio <= 1 || v.have > v.up || v.now.Sub(v.settled) < o.Window {
		return 0, ""
	}
	v.overloaded()
	return max(v.up+1, ceil(float64(v.up)*min(ratio, 2))), what
}

// tight returns why there is little headroom, or nothing.
func (v view) tight() string {
	d, o := v.Demand, v.options
	if v.have > v.up {
		return ""
	}
	rising := d.rising()
	places := float64(d.Places * v.up)
	switch {
	case v.now.Sub(v.settled) < o.Window:
		return ""
	case places > 0 && float64(d.Waiting) >= o.QueueAt*places:
		return fmt.Sprintf("%d sequences wait for %.0f places", d.Waiting, places)
	case places > 0 && float64(d.sequences()) >= o.UpAt*places:
		return fmt.Sprintf("%d sequences on %.0f places", d.sequences(), places)
	case d.KV > o.KVFull:
		return fmt.Sprintf("%.0f%% of the KV blocks are in use", 100*d.KV)
	case over(d.TTFT, v.SLO.TTFT)*rising > o.Headroom && d.Running > 0:
		return fmt.Sprintf("P99 of TTFT is %s, and the SLO %s", d.TTFT, v.SLO.TTFT)
	case over(d.TPOT, v.SLO.TPOT)*rising > o.Headroom && d.Running > 0:
		return fmt.Sprintf("P99 of TPOT is %s, and the SLO %s", d.TPOT, v.SLO.TPOT)
	}
	return ""
}

// overloadMargin is the share of the rate with too little headroom that replicas carry for sure.
const overloadMargin = 0.9

// steady is the highest ratio of the recent rate to that of the window at which the rate does not rise.
const steady = 1.1

// rising returns by how much the load is expected to rise, since the rate of the window is an average.
func (d Demand) rising() float64 {
	if d.Rate > 0 && d.Recent > d.Rate {
		return d.Recent / d.Rate
	}
	return 1
}

// overloaded notes the rate at which the replicas have too little headroom. While the rate rises, that is only
// a prediction.
func (v view) overloaded() {
	rate := max(v.Demand.Rate, v.Demand.Recent) / float64(v.up)
	if v.Demand.rising() > steady {
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
	same := Want{v.have, Headroom, "enough"}
	switch {
	case v.idle > 0 && v.needed(v.up) == "":
		return Want{v.have - v.idle, Headroom, fmt.Sprintf("%d replicas carry the load", v.up)}
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
		same.Why = fmt.Sprintf("%d replicas are enough for %s", v.up-1, low.Round(time.Second))
		return same
	}
	v.memory.LowSince = time.Time{} // the next one must be surplus for as long
	return Want{v.have - 1, Headroom, fmt.Sprintf("%d replicas carry the load", v.up-1)}
}

// needed returns why a number of replicas is too few, or nothing. With unknown figures, it is.
func (v view) needed(replicas int) string {
	d, o := v.Demand, v.options
	left := float64(replicas)
	more := d.rising() * float64(v.up) / left // load of each of them, over the present one
	rate := max(d.Rate, d.Recent)
	switch {
	case d.Rate < 0:
		return "the rate of requests is unknown"
	case d.Places == 0 && d.Capacity == 0 && d.Utilization < 0:
		return "what a replica can carry is unknown"
	case d.Places > 0 && float64(d.sequences()) > o.DownAt*float64(d.Places)*left:
		return fmt.Sprintf("%d sequences are too many for %.0f replicas", d.sequences(), left)
	case d.Capacity > 0 && rate > o.Headroom*d.Capacity*left:
		return fmt.Sprintf("%.3g requests/s are too many for %.0f replicas by the profile", rate, left)
	case v.memory.Overload > 0 && rate > overloadMargin*v.memory.Overload*left:
		return fmt.Sprintf("%.3g requests/s were too many for %.0f replicas before", rate, left)
	case d.KV*more > o.KVFull*o.Headroom:
		return "the KV blocks of the remaining replicas would be full"
	case over(d.TTFT, v.SLO.TTFT)*more > o.DownHeadroom && d.Rate > 0:
		return "the P99 of TTFT would have little headroom"
	case over(d.TPOT, v.SLO.TPOT)*more > o.DownHeadroom && d.Rate > 0:
		return "the P99 of TPOT would have little headroom"
	case d.Places == 0 && d.Capacity == 0 && d.Utilization >= o.ParkBelow:
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

// ceil rounds up, with a tolerance for rounding errors.
func ceil(x float64) int { return int(math.Ceil(x - 1e-9)) }
