package workload

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// Requests generates the requests from a time of the trace until before another, as if the first was 0.
// A window of a client has as many requests as the trace counted. Their gaps are drawn from the fitted
// distribution, and then scaled so that they fill the window.
func (s *ServeGen) Requests(seed uint64, begin, end time.Duration) Source {
	sources := make([]Source, len(s.clients))
	for i, c := range s.clients {
		sources[i] = s.of(c, seed, begin, end)
	}
	return Cut(Merge(sources...), begin, end)
}

// OmitUnknown removes the clients without lengths, and returns the share of all requests that were theirs.
func (s *ServeGen) OmitUnknown() (share float64) {
	all, omitted := 0, 0
	s.clients = slices.DeleteFunc(s.clients, func(c *servegenClient) bool {
		n := 0
		for _, w := range c.windows {
			n += w.requests
		}
		if all += n; len(c.lengths) == 0 {
			omitted += n
		}
		return len(c.lengths) == 0
	})
	return float64(omitted) / float64(max(1, all))
}

// Span returns the time that the rates cover.
func (s *ServeGen) Span() (end time.Duration) {
	for _, c := range s.clients {
		if n := len(c.windows); n > 0 {
			end = max(end, c.windows[n-1].at+servegenWindow)
		}
	}
	return end
}

// of generates the requests of a client in the windows that overlap a time.
func (s *ServeGen) of(c *servegenClient, seed uint64, begin, end time.Duration) Source {
	return func(yield func(Request, error) bool) {
		for _, w := range c.windows {
			if w.at+servegenWindow <= begin || w.at >= end || w.requests == 0 {
				continue
			}
			if len(c.lengths) == 0 {
				problem := fmt.Sprintf("has no lengths, but requests at %s", w.at)
				yield(Request{}, &Error{s.file, 0, "client " + c.id, problem,
					"add its lengths, end before that time, or omit the client"})
				return
			}
			r := rand.New(rand.NewPCG(seed, windowSeed(c.id, w.at))) // windows do not depend on each other
			lengths := c.lengthsAt(w.at)
			for _, at := range w.arrivals(r) {
				q := Request{At: at, Model: s.model, Client: c.id, Output: lengths.output.sample(r)}
				for _, part := range lengths.prompt {
					q.Prompt += part.sample(r)
				}
				if !yield(q, nil) {
					return
				}
			}
		}
	}
}

func windowSeed(client string, at time.Duration) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", client, at)
	return h.Sum64()
}

// arrivals returns the times of the requests of a window.
func (w rateWindow) arrivals(r *rand.Rand) []time.Duration {
	gaps := make([]float64, w.requests+1) // the last one ends with the window
	var sum float64
	for i := range gaps {
		if w.weibull {
			gaps[i] = weibull(r, w.shape)
		} else {
			gaps[i] = gamma(r, w.shape)
		}
		sum += gaps[i]
	}
	all := make([]time.Duration, w.requests)
	var passed float64
	for i := range all {
		passed += gaps[i]
		all[i] = w.at + min(seconds(passed/sum*servegenWindow.Seconds()), servegenWindow-1)
	}
	return all
}

// lengthsAt returns the lengths at a time: the last ones before it in the day, or else the first ones.
func (c *servegenClient) lengthsAt(at time.Duration) lengthWindow {
	found := c.lengths[0]
	for _, l := range c.lengths {
		if l.at <= at%(24*time.Hour) {
			found = l
		}
	}
	return found
}
