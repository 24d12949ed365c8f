package schedule

import "time"

const (
	// leastGap is the shortest time without a request that counts.
	leastGap = 30 * time.Second
	// gapSteps is the number of lengths by which gaps are counted: from 30 s to 17 hours.
	gapSteps = 12
	// mostGaps is the number of gaps at which the older ones begin to count less.
	mostGaps = 32
)

// Gaps is what plans have learned of the times in which a model gets no request. Requests come in bursts, so that
// the time since the last one says more about the next one than the average rate does.
type Gaps struct {
	At, Last time.Time // of the last plan, and of the last request that it knew
	Over     [gapSteps]Gap
}

// Gap sums up the gaps that reached a given length: 30 s, 1 min, 2 min, and so on.
type Gap struct {
	Beyond float64 // seconds that they lasted beyond it, in all
	Ended  float64 // number of those that a request has ended
}

// see adds what has passed since the last plan.
func (g *Gaps) see(now, last time.Time) {
	before := *g
	if g.At, g.Last = now, last; before.Last.IsZero() || last.IsZero() {
		return
	}
	until, ended := now, last.After(before.Last)
	if ended {
		until = last
	}
	age := leastGap
	for i := range g.Over {
		gap, from := &g.Over[i], before.Last.Add(age)
		if until.Before(from) {
			return
		}
		if before.At.After(from) {
			from = before.At
		}
		gap.Beyond += max(0, until.Sub(from).Seconds())
		if ended {
			gap.Ended++
		}
		if gap.Ended >= mostGaps {
			gap.Beyond, gap.Ended = gap.Beyond/2, gap.Ended/2
		}
		age *= 2
	}
}

// next returns the expected time until the next request, if the last one was at least leastGap ago: the mean by
// which gaps exceeded the largest length that the present one has reached. The mean includes one assumed gap that
// exceeded this length by the length itself, so that few observations do not decide alone.
func (g *Gaps) next(now time.Time) (next time.Duration, known bool) {
	age := leastGap
	if g.Last.IsZero() || now.Sub(g.Last) < age {
		return 0, false
	}
	i := 0
	for i < gapSteps-1 && now.Sub(g.Last) >= 2*age {
		i, age = i+1, 2*age
	}
	return seconds((g.Over[i].Beyond + age.Seconds()) / (g.Over[i].Ended + 1)), true
}
