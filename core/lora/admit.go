package lora

import (
	"cmp"
	"slices"
	"time"
)

// Waiting is a queued request. Adapter is "" for the base model alone.
type Waiting struct {
	ID, Adapter string
	Class       int // higher is served first
	Round       int // within a class, lower is served first: the client's scheduling round
	Arrived     time.Time
}

// Policy orders the requests that wait to enter a batch. Within a class and a round the order is:
// requests older than MaxAge; requests whose adapter is on the device; requests whose adapter is
// being loaded; all others. Within each group it is first come, first served.
type Policy struct {
	// FirstCome makes the order that of arrival alone. A request that waits for its adapter blocks
	// all later ones.
	FirstCome bool
	// MaxAge is how long other requests may pass a request; 500 ms by default. A request older than
	// MaxAge that lacks pages blocks those behind it and takes the pages reserved for them. If it
	// lacks only a place under MaxAdapters, requests whose adapter has a place still pass. One
	// adapter then admits no further requests until its place is free.
	MaxAge time.Duration
	// MaxAdapters limits the different adapters in a batch; 0: no limit.
	MaxAdapters int
	// MaxWait returns how long a request of a class waits for its adapter before it is rejected;
	// nil: forever.
	MaxWait func(class int) time.Duration
	// Lookahead is the number of requests at the head of the queue whose adapters are loaded before
	// the batch has room.
	Lookahead int
}

// Residency pins adapters to a device for requests. It is a Pool, or a PinClient if the pool is
// elsewhere. Pin returns Pending for a request that asks again after a NoRoom refusal.
type Residency interface {
	Pin(request, adapter string) (State, *Refusal)
	Unpin(request string)
	State(adapter string) (State, Tier)
}

// Admission admits waiting requests to a batch. An admitted request pins its adapter until Unpin.
// So does a request whose adapter is being loaded for it.
type Admission struct {
	policy Policy
	pool   Residency
}

// NewAdmission returns the admission to a batch whose adapters are in a pool.
func NewAdmission(policy Policy, pool Residency) *Admission {
	if policy.MaxAge == 0 {
		policy.MaxAge = 500 * time.Millisecond
	}
	return &Admission{policy, pool}
}

// Rejected is a waiting request that cannot be served. It holds no adapter.
type Rejected struct {
	Waiting
	Refusal *Refusal
}

// Admit admits requests in order until enter reports that there is no room for one. running lists
// the adapters of the sequences in the batch. Rejected requests must not be passed again.
func (a *Admission) Admit(waiting []Waiting, running []string, now time.Time, enter func(Waiting) bool) []Rejected {
	pass := admitPass{Admission: a, line: a.sorted(waiting, now), now: now, adapterLimit: newAdapterLimit(running)}
	for i := range pass.line {
		switch pass.decide(i) {
		case admit:
			if !enter(pass.line[i]) {
				return pass.rejected
			}
			pass.reserve(pass.line[i].Adapter)
		case stop:
			return pass.rejected
		}
	}
	return pass.rejected
}

// PrefetchAdapters loads the adapters of the first Lookahead requests in the queue, up to one for
// which there is no room. Those behind it would take the room that Admit makes for it.
func (a *Admission) PrefetchAdapters(waiting []Waiting) {
	line := slices.SortedFunc(slices.Values(waiting), Waiting.compare)
	for _, w := range line[:min(len(line), a.policy.Lookahead)] {
		if w.Adapter == "" {
			continue
		}
		if lacksPages(a.pool.Pin(w.ID, w.Adapter)) {
			return
		}
	}
}

// lacksPages reports whether an answer of Pin means that there is no room, or may be none. Requests that
// may not pass this one must not get the room before it is certain.
func lacksPages(state State, refusal *Refusal) bool {
	return state == Pending || refusal != nil && refusal.Reason == NoRoom
}

// compare orders requests for service, ignoring adapters.
func (w Waiting) compare(v Waiting) int {
	return cmp.Or(cmp.Compare(v.Class, w.Class), cmp.Compare(w.Round, v.Round), w.Arrived.Compare(v.Arrived),
		cmp.Compare(w.ID, v.ID))
}

// sorted returns the queue in the policy's order.
func (a *Admission) sorted(waiting []Waiting, now time.Time) []Waiting {
	if a.policy.FirstCome {
		return slices.SortedFunc(slices.Values(waiting), Waiting.compare)
	}
	return slices.SortedFunc(slices.Values(waiting), func(w, v Waiting) int {
		return cmp.Or(cmp.Compare(v.Class, w.Class), cmp.Compare(w.Round, v.Round),
			cmp.Compare(a.rank(w, now), a.rank(v, now)), w.compare(v))
	})
}

// rank returns the group of a request within its class and round; lower ranks come first.
func (a *Admission) rank(w Waiting, now time.Time) int {
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

// admitPass is the state of one call of Admit.
type admitPass struct {
	*Admission
	line     []Waiting
	now      time.Time
	rejected []Rejected
	adapterLimit
}

type decision int

const (
	skip decision = iota // it waits, and others may pass
	admit
	stop // it waits, and no other request may pass
)

// decide decides about request i in the queue. An admitted request pins its adapter.
func (d *admitPass) decide(i int) decision {
	w := d.line[i]
	if w.Adapter == "" {
		return admit
	}
	strict := d.policy.FirstCome || d.now.Sub(w.Arrived) > d.policy.MaxAge
	if d.policy.MaxAdapters > 0 && !d.admitted[w.Adapter] && len(d.admitted) >= d.policy.MaxAdapters {
		switch {
		case d.policy.FirstCome:
			return stop
		case strict:
			d.closeSmallest()
		}
		return skip
	}
	if w.Adapter == d.closed {
		return skip
	}
	state, refusal := d.pool.Pin(w.ID, w.Adapter)
	if refusal != nil && refusal.Reason == NoRoom && strict {
		for _, behind := range d.line[i+1:] {
			d.pool.Unpin(behind.ID)
		}
		state, refusal = d.pool.Pin(w.ID, w.Adapter)
	}
	switch {
	case lacksPages(state, refusal):
		return stopIf(strict)
	case refusal != nil:
		d.rejected = append(d.rejected, Rejected{w, refusal})
		return skip
	case state == Active:
		return admit
	}
	if strict {
		d.reserve(w.Adapter)
	}
	return stopIf(d.policy.FirstCome)
}

func stopIf(strict bool) decision {
	if strict {
		return stop
	}
	return skip
}

// GroupByAdapter stably sorts a batch so that items with the same adapter are adjacent, in the
// order of first occurrence.
func GroupByAdapter[T any](batch []T, adapter func(T) string) {
	first := make(map[string]int)
	for i, t := range batch {
		if _, ok := first[adapter(t)]; !ok {
			first[adapter(t)] = i
		}
	}
	slices.SortStableFunc(batch, func(a, b T) int { return cmp.Compare(first[adapter(a)], first[adapter(b)]) })
}
