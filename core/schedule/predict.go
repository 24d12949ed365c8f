package schedule

import (
	"math"
	"time"
)

// loadWindow is the time over which the number of sequences is averaged.
const loadWindow = 5 * time.Minute

// lightLoad is the share of the places in use up to which times do not depend on the load.
const lightLoad = 0.3

// missShare is the share of requests that may miss a P99.
const missShare = 0.01

// Learned is what plans have learned of a model: averages over time.
type Learned struct {
	At        time.Time // of the last sample
	Sequences Average   // that are not finished
	Rate      Average   // arrivals per second
	// TTFT and TPOT are the P99, in seconds, of a model that uses few of its places: what more replicas do not
	// improve.
	TTFT, TPOT Average
}

// Average is an average of samples of which the older ones count less. The zero Average has none.
type Average struct{ Sum, Weight float64 }

// add adds a sample that counts for a time.
func (a *Average) add(value float64, lasts time.Duration) {
	keep := math.Exp(-lasts.Seconds() / loadWindow.Seconds())
	a.Sum, a.Weight = float64(a.Sum*keep)+float64(value*(1-keep)), float64(a.Weight*keep)+(1-keep)
}

// value returns the average. It reports false if the samples cover less than a minute.
func (a Average) value() (v float64, known bool) {
	least := 1 - math.Exp(-time.Minute.Seconds()/loadWindow.Seconds())
	if a.Weight < least-1e-9 {
		return 0, false
	}
	return a.Sum / a.Weight, true
}

// learn adds the present figures to what was learned.
func (v view) learn() {
	l, d := &v.memory.Learned, v.Demand
	v.memory.Gaps.see(v.now, d.Last)
	lasts := min(v.now.Sub(l.At), time.Minute)
	first := l.At.IsZero()
	if l.At = v.now; first || lasts <= 0 {
		return
	}
	l.Sequences.add(float64(d.sequences()), lasts)
	if d.Rate >= 0 {
		l.Rate.add(d.Rate, lasts)
	}
	light := d.Places > 0 && d.Waiting+d.Pending == 0 &&
		float64(d.sequences()) <= lightLoad*float64(d.Places*v.up) && v.now.Sub(v.settled) >= v.options.Window
	for _, t := range []struct {
		p99 time.Duration
		to  *Average
	}{{d.TTFT, &l.TTFT}, {d.TPOT, &l.TPOT}} {
		if light && t.p99 >= 0 {
			t.to.add(t.p99.Seconds(), lasts)
		}
	}
}

// excess returns by how much a P99 is above what it is with little load, as a share of what the SLO leaves for that.
// An SLO that is missed with little load is not met by more replicas: its excess is 0.
func excess(p99, most time.Duration, least Average) float64 {
	if p99 < 0 || most <= 0 {
		return 0
	}
	low, _ := least.value()
	room := most.Seconds() - low
	if room <= 0 {
		return 0
	}
	return max(0, p99.Seconds()-low) / room
}

// profiled reports whether a profile says what replicas serve.
func (d Demand) profiled() bool { return len(d.Capacities) > 0 }

// serves returns the requests per second that a number of replicas serve within the SLO by their profile.
func (d Demand) serves(replicas int) float64 {
	known := len(d.Capacities)
	switch {
	case replicas <= 0 || known == 0:
		return 0
	case replicas <= known:
		return d.Capacities[replicas-1]
	}
	return d.Capacities[known-1] * float64(replicas) / float64(known)
}

// replicasFor returns the least number of replicas that serve a rate within the SLO by their profile.
func (d Demand) replicasFor(rate float64) int {
	for i, c := range d.Capacities {
		if rate <= c {
			return i + 1
		}
	}
	known := len(d.Capacities)
	return ceil(rate / d.Capacities[known-1] * float64(known))
}

// growth returns by how much an excess over the average grows with the load. Waits grow faster than the load. The part
// of a time that does not depend on the load does not grow, so if it is unknown, all of the time is taken to grow with
// the load.
func (a Average) growth(load float64) float64 {
	if _, known := a.value(); known {
		return load * load * load
	}
	return load
}

// waits returns the P99 of the time that requests wait for a place, in a queue with Poisson arrivals in front of all
// places of a number of replicas (M/M/c, Erlang 1917), with a multiple of the average load. It reports false if the
// load or the places are unknown.
//
//	A = average number of sequences, c = replicas · places, S = A / arrivals per second
//	P(wait > t) = C(c, A) · exp(-(c - A) · t / S)
//	C(c, A)     = B / (1 - A/c · (1 - B)), with Erlang's loss formula B(c, A)
func (v view) waits(replicas int, multiple float64) (seconds float64, known bool) {
	load, a := v.memory.Learned.Sequences.value()
	rate, b := v.memory.Learned.Rate.value()
	if !a || !b || v.Demand.Places == 0 || rate <= 0 || load <= 0 {
		return 0, false
	}
	serve := load / rate
	load *= multiple
	places := replicas * v.Demand.Places
	if load >= float64(places) {
		return math.Inf(1), true
	}
	loss := 1.0 // B(0, A)
	for c := 1; c <= places; c++ {
		loss = load * loss / (float64(c) + load*loss)
	}
	queued := loss / (1 - load/float64(places)*(1-loss))
	if queued <= missShare {
		return 0, true
	}
	return serve / (float64(places) - load) * math.Log(queued/missShare), true
}

// wait returns the P99 of the wait for a place, as a share of what the SLO of the TTFT leaves for it.
func (v view) wait(replicas int, multiple float64) (share float64, known bool) {
	seconds, known := v.waits(replicas, multiple)
	low, _ := v.memory.Learned.TTFT.value()
	if room := v.SLO.TTFT.Seconds() - low; known && v.SLO.TTFT > 0 && room > 0 {
		return seconds / room, true
	}
	return 0, false
}
