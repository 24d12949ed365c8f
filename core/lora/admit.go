package lora

import (
	"cmp"
	"slices"
	"time"
)

// Waiting is a request in line. Adapter is "" for the base model alone.
type Waiting struct {
	ID, Adapter string
	Class       int // higher is served first
	Round       int // within a class, lower is served first: the turns of clients
	Arrived     time.Time
}

// Policy says in which order requests enter a batch. Within a class and a round it is: those older than MaxAge; those whose adapter is on the
// device; those whose adapter is being loaded; the rest. Within each, first come, first served.
type Policy struct {
	// FirstCome makes it the order of arrival alone: nobody passes one that has to wait for its adapter.
	FirstCome bool
	// MaxAge is how long a request may be passed by others. Nobody passes an older one that lacks pages, and pages that are kept for
	// those behind it are taken for it. Where it lacks a place among the adapters, those pass whose adapter has one, and one adapter
	// takes nobody in until there is a place. 500 ms by default.
	MaxAge time.Duration
	// MaxAdapters is how many different adapters a batch may have; 0: any number.
	MaxAdapters int
	// MaxWait is how long a request of a class waits for its adapter before it is rejected; nil: for ever.
	MaxWait func(class int) time.Duration
	// Lookahead is for how many requests at the head of the line adapters are loaded before there is room in the batch.
	Lookahead int
}

// Keeper keeps adapters on a device for requests: a Pool, or a Desk where the pool is somewhere else.
type Keeper interface {
	Pin(request, adapter string) (State, *Refusal)
	Unpin(request string)
	State(adapter string) (State, Tier)
}

// Admission takes waiting requests into a batch. A request that was taken in holds its adapter until Unpin, and so does one
// whose adapter is being loaded for it.
type Admission struct {
	policy Policy
	pool   Keeper
}

// NewAdmission returns the admission to a batch whose adapters are in a pool.
func NewAdmission(policy Policy, pool Keeper) *Admission {
	if policy.MaxAge == 0 {
		policy.MaxAge = 500 * time.Millisecond
	}
	return &Admission{policy, pool}
}

// Rejected is a waiting request that can not be served. It holds nothing.
type Rejected struct {
	Waiting
	Refusal *Refusal
}

// Admit takes requests in while enter does: it reports false where there is no room for one. running has the adapters of the
// sequences in the batch. Those that are rejected must not be in line the next time.
func (a *Admission) Admit(waiting []Waiting, running []string, now time.Time, enter func(Waiting) bool) []Rejected {
	d := door{Admission: a, line: a.order(waiting, now), now: now, places: newPlaces(running)}
	for i := range d.line {
		switch d.try(i) {
		case enters:
			if !enter(d.line[i]) {
				return d.rejected
			}
			d.reserve(d.line[i].Adapter)
		case blocks:
			return d.rejected
		}
	}
	return d.rejected
}

// Ahead has the adapters of the first requests in line loaded.
func (a *Admission) Ahead(waiting []Waiting) {
	line := slices.SortedFunc(slices.Values(waiting), Waiting.compare)
	for _, w := range line[:min(len(line), a.policy.Lookahead)] {
		if w.Adapter != "" {
			a.pool.Pin(w.ID, w.Adapter)
		}
	}
}

// compare is the order of service without adapters.
func (w Waiting) compare(v Waiting) int {
	return cmp.Or(cmp.Compare(v.Class, w.Class), cmp.Compare(w.Round, v.Round), w.Arrived.Compare(v.Arrived), cmp.Compare(w.ID, v.ID))
}

// order is the line as the policy has it.
func (a *Admission) order(waiting []Waiting, now time.Time) []Waiting {
	if a.policy.FirstCome {
		return slices.SortedFunc(slices.Values(waiting), Waiting.compare)
	}
	return slices.SortedFunc(slices.Values(waiting), func(w, v Waiting) int {
		return cmp.Or(cmp.Compare(v.Class, w.Class), cmp.Compare(w.Round, v.Round), cmp.Compare(a.turn(w, now), a.turn(v, now)), w.compare(v))
	})
}

// turn is lower for those that come first.
func (a *Admission) turn(w Waiting, now time.Time) int {
	if now.Sub(w.Arrived) > a.policy.MaxAge {
		return 0
	}
	if w.Adapter == "" {
		return 1
	}
	switch state, _ := a.pool.State(w.Adapter); state {
	case Idle, Active:
		return 1
	case Loading:
		return 2
	}
	return 3
}

// door is one Admit.
type door struct {
	*Admission
	line     []Waiting
	now      time.Time
	rejected []Rejected
	places
}

type verdict int

const (
	passed verdict = iota // it waits, and others may pass
	enters
	blocks // it waits, and nobody may pass
)

// try decides about one request. One that enters holds its adapter.
func (d *door) try(i int) verdict {
	w := d.line[i]
	if w.Adapter == "" {
		return enters
	}
	strict := d.policy.FirstCome || d.now.Sub(w.Arrived) > d.policy.MaxAge
	if d.policy.MaxAdapters > 0 && !d.inside[w.Adapter] && len(d.inside) >= d.policy.MaxAdapters {
		switch {
		case d.policy.FirstCome:
			return blocks
		case strict:
			d.close()
		}
		return passed
	}
	if w.Adapter == d.closing {
		return passed
	}
	state, refusal := d.pool.Pin(w.ID, w.Adapter)
	if refusal != nil && refusal.Reason == NoRoom && strict {
		for _, behind := range d.line[i+1:] {
			d.pool.Unpin(behind.ID)
		}
		state, refusal = d.pool.Pin(w.ID, w.Adapter)
	}
	switch {
	case refusal != nil && refusal.Reason == NoRoom:
		return waits(strict)
	case refusal != nil:
		d.rejected = append(d.rejected, Rejected{w, refusal})
		return passed
	case state == Active:
		return enters
	}
	if strict {
		d.reserve(w.Adapter)
	}
	return waits(d.policy.FirstCome)
}

func waits(strict bool) verdict {
	if strict {
		return blocks
	}
	return passed
}

// SideBySide sorts a batch so that what has one adapter is together, in the order in which adapters come up.
func SideBySide[T any](batch []T, adapter func(T) string) {
	first := make(map[string]int)
	for i, t := range batch {
		if _, ok := first[adapter(t)]; !ok {
			first[adapter(t)] = i
		}
	}
	slices.SortStableFunc(batch, func(a, b T) int { return cmp.Compare(first[adapter(a)], first[adapter(b)]) })
}
