package slots

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// Request is a request for a model, which is a number from 0.
type Request struct {
	At    time.Duration
	Model int
}

// never is after all deadlines.
const never = time.Duration(math.MaxInt64)

// state is what is held, and the first request of each absent model that is not served.
type state struct {
	held  uint64
	first []int32 // by model: index in its requests; 0 for those that are held
	loads int
	due   time.Duration // earliest deadline of an absent model
}

// search is the search for the least number of loads.
type search struct {
	requests [][]time.Duration // times by model
	wait     time.Duration
	states   map[uint64][]*state // by the models that are held
}

// Least returns the least number of loads with which a number of slots serve all requests, each within the wait.
// Requests are in order of arrival. At the beginning the slots hold the given models.
func Least(requests []Request, models int, held []int, wait time.Duration) int {
	s := search{requests: make([][]time.Duration, models), wait: wait, states: make(map[uint64][]*state)}
	for _, r := range requests {
		s.requests[r.Model] = append(s.requests[r.Model], r.At)
	}
	start := &state{first: make([]int32, models)}
	for _, m := range held {
		start.held |= 1 << m
	}
	s.add(start)
	for {
		due, least := never, math.MaxInt
		for _, like := range s.states {
			for _, is := range like {
				due, least = min(due, is.due), min(least, is.loads)
			}
		}
		if due == never {
			return least
		}
		s.expand(due, least+models-len(held)+1)
	}
}

// expand replaces the states with a deadline, and removes those with too many loads.
func (s *search) expand(due time.Duration, most int) {
	var ready []*state
	for held, like := range s.states {
		s.states[held] = slices.DeleteFunc(like, func(is *state) bool {
			if is.loads < most && is.due == due {
				ready = append(ready, is)
			}
			return is.loads >= most || is.due == due
		})
	}
	for _, is := range ready {
		s.load(is, due)
	}
}

// load adds the states that follow a state at its deadline.
func (s *search) load(is *state, due time.Duration) {
	model, waiting := -1, uint64(0)
	for m := range s.requests {
		switch at := s.arrival(m, is.first[m]); {
		case is.held&(1<<m) != 0 || at == never:
		case model < 0 && at+s.wait == due:
			model = m
		case at <= due:
			waiting |= 1 << m
		}
	}
	for passing := waiting; ; passing = (passing - 1) & waiting {
		for out := is.held; out != 0; out &= out - 1 {
			victim := bits.TrailingZeros64(out)
			next := &state{held: is.held&^(1<<victim) | 1<<model, first: slices.Clone(is.first),
				loads: is.loads + 1 + bits.OnesCount64(passing)}
			next.first[model] = 0
			next.first[victim] = s.after(victim, due)
			for all := passing; all != 0; all &= all - 1 {
				m := bits.TrailingZeros64(all)
				next.first[m] = s.after(m, due)
			}
			s.add(next)
		}
		if passing == 0 {
			return
		}
	}
}

// arrival returns the time of a request.
func (s *search) arrival(model int, index int32) time.Duration {
	if int(index) < len(s.requests[model]) {
		return s.requests[model][index]
	}
	return never
}

// after returns the first request of a model after a time.
func (s *search) after(model int, at time.Duration) int32 {
	i, _ := slices.BinarySearch(s.requests[model], at+1)
	return int32(i)
}

// add adds a state, unless another one is as good. It removes those that are not better.
func (s *search) add(next *state) {
	next.due = never
	for m := range s.requests {
		if at := s.arrival(m, next.first[m]); next.held&(1<<m) == 0 && at != never {
			next.due = min(next.due, at+s.wait)
		}
	}
	like := s.states[next.held]
	if slices.ContainsFunc(like, func(is *state) bool { return is.covers(next) }) {
		return
	}
	s.states[next.held] = append(slices.DeleteFunc(like, next.covers), next)
}

// covers reports whether a state is at least as good as another one that holds the same models.
func (is *state) covers(other *state) bool {
	if is.loads > other.loads {
		return false
	}
	for m := range is.first {
		if is.first[m] < other.first[m] {
			return false
		}
	}
	return true
}
