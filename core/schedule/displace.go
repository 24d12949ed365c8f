package schedule

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// victim is a replica that may leave for another model.
type victim struct {
	*replica
	idle  bool    // its model has no requests
	worth float64 // average of arrivals per second, per GiB that leaves
	last  time.Time
}

// displacement is the cheapest way to make room for a replica.
type displacement struct {
	on      []*device
	victims []*replica
}

// displace returns the devices for a replica and the replicas that leave for it. It returns none if no
// replicas that may leave make room. The replicas with the lowest priority leave first; of these those
// without demand, then those with the least demand per byte, then those used the longest ago.
func (w *world) displace(q request) (best displacement, ok bool) {
	m, nodes := q.model, q.siblingsOn()
	var price []float64
	for _, of := range w.clusters(m) {
		type candidate struct {
			*device
			victims []*replica
			price   []float64
		}
		var all []candidate
		for _, d := range of {
			if victims, possible := w.victimsOn(q, d); possible {
				all = append(all, candidate{d, victims, w.price(q, d, nodes, victims)})
			}
		}
		if len(all) < m.Group {
			continue
		}
		slices.SortStableFunc(all, func(a, b candidate) int { return slices.Compare(a.price, b.price) })
		var next displacement
		var sum []float64
		for _, c := range all[:m.Group] {
			next.on = append(next.on, c.device)
			for _, v := range c.victims {
				if !slices.Contains(next.victims, v) {
					next.victims = append(next.victims, v)
				}
			}
			sum = append(sum, c.price...)
		}
		if !w.allowed(q, next.victims) {
			continue
		}
		if !ok || cmp.Or(slices.Compare(sum, price), cmp.Compare(islands(next.on), islands(best.on))) < 0 {
			best, price, ok = next, sum, true
		}
	}
	return best, ok
}

// victimsOn returns the replicas that have to leave a device for a model. It reports false if those that
// may leave are not enough.
func (w *world) victimsOn(q request, d *device) (leave []*replica, ok bool) {
	if r := w.admits(q, d, here); r.final {
		return nil, false
	}
	var may []victim
	for _, r := range d.replicas {
		if !r.leaves && w.mayLeave(q, r) {
			may = append(may, w.victim(r))
		}
	}
	slices.SortStableFunc(may, victim.compare)
	stays := func(r *replica) bool { return !r.leaves && !slices.Contains(leave, r) }
	for _, v := range may {
		if w.admits(q, d, stays).kind == "" {
			break
		}
		leave = append(leave, v.replica)
	}
	if w.admits(q, d, stays).kind != "" {
		return nil, false
	}
	for _, v := range slices.Clone(leave) { // those that need not leave after all
		all := leave
		leave = slices.DeleteFunc(slices.Clone(all), func(r *replica) bool { return r == v })
		if w.admits(q, d, stays).kind != "" {
			leave = all
		}
	}
	return leave, w.allowed(q, leave)
}

// mayLeave reports whether a replica may leave for a model. Only a strictly lower priority is preempted. A
// model of the same or a higher priority yields a replica without work, unless it is likely to need it again soon.
// One of the same priority also yields others to a model without any replica, after both had their time.
func (w *world) mayLeave(q request, r *replica) bool {
	m, v, u := q.model, r.model, q.urgency
	switch {
	case v == nil || v == m || !w.unkept && (v.held || v.Pinned) || !v.Sized,
		r.started && !w.eventually:
		return false
	case v.Priority > m.Priority:
		return u <= Missed || u == Headroom && v.Priority == Batch
	case u > Missed:
		return false
	case v.Demand.idle(w.at, w.options) && v.Min < v.staying() && w.rested(r):
		return w.eventually || u != Wake || !w.returnsSooner(v, m)
	}
	return v.Priority == m.Priority && u == Wake && w.rested(r) && w.waitedLong(m)
}

// lessWorth is the share of the worth of a replica that is worth waiting for: while another one with at most this worth
// must stay for its residence, the former keeps its place.
const lessWorth = 0.5

// cheaperSoon reports whether other replicas, which must stay for their residence yet, are worth much less than those
// of the same priority that would leave now. Without it, models without many requests, which have been there for a
// short time only, take the places of those with the most. The requests wait for that no longer than WakeWait and the
// residence.
func (w *world) cheaperSoon(q request, now displacement) bool {
	worth := w.worth(q, now.victims)
	if q.urgency != Wake || worth <= 0 || q.Demand.Oldest.IsZero() {
		return false
	}
	w.eventually = true
	soon, ok := w.displace(q)
	w.eventually = false
	if !ok || len(soon.victims) == 0 || w.worth(q, soon.victims) > lessWorth*worth {
		return false
	}
	return w.at.Before(q.wakeBy().Add(w.residence(soon.victims[0].model)))
}

// worth returns the worth of those replicas that have the priority of a model.
func (w *world) worth(q request, leave []*replica) (sum float64) {
	for _, r := range leave {
		if r.model.Priority == q.Priority {
			sum += w.victim(r).worth
		}
	}
	return sum
}

// rested reports whether a replica has been there for its minimum residence.
func (w *world) rested(r *replica) bool {
	return w.eventually || r.Progress == Up && w.at.Sub(r.Since) >= w.residence(r.model)
}

// residence returns the minimum residence of the replicas of a model.
func (w *world) residence(m *model) time.Duration {
	return max(w.options.Residence, seconds(w.options.ResidenceLoads*m.Loads.least().Seconds()))
}

// least returns the shortest known load.
func (l LoadTimes) least() time.Duration { return cmp.Or(l.Device, l.Host, l.Disk) }

// waitedLong reports whether the oldest request for a model has waited so long that a load must begin to
// end within its wait.
func (w *world) waitedLong(m *model) bool {
	if w.eventually {
		return true
	}
	return m.WakeWait >= 0 && !m.Demand.Oldest.IsZero() && !w.at.Before(m.wakeBy())
}

// wakeBy returns when a load must begin to end within the wait of the oldest request.
func (m *model) wakeBy() time.Time {
	return m.Demand.Oldest.Add(m.WakeWait - max(m.Loads.Host, m.Loads.Disk))
}

// likely is the probability of a request from which on a model without requests keeps its place.
const likely = 0.1

// returnsSooner reports whether a model v without requests is likely to get one while those of a model m that wakes may
// still wait: it would be loaded again within that time. It holds if, of exponential times with the expected one,
// about a tenth are as short.
func (w *world) returnsSooner(v, m *model) bool {
	if m.WakeWait <= 0 || m.Demand.Oldest.IsZero() {
		return false
	}
	gaps := w.memory.Models[v.Name].Gaps
	next, known := gaps.next(w.at)
	return known && likely*next.Seconds() < m.wakeBy().Sub(w.at).Seconds()
}

// allowed reports whether the models keep their minimums without some replicas. The minimum of a model
// comes before that of a lower priority.
func (w *world) allowed(q request, leave []*replica) bool {
	for _, r := range leave {
		n := 0
		for _, o := range leave {
			if o.model == r.model {
				n++
			}
		}
		below := r.model.staying()-n < r.model.Min
		if below && !(q.urgency == Minimum && r.model.Priority > q.Priority) {
			return false
		}
	}
	return true
}

func (w *world) victim(r *replica) victim {
	m := r.model
	v := victim{replica: r, idle: m.Demand.idle(w.at, w.options), last: m.Demand.Last}
	memory := w.memory.Models[m.Name]
	// The average of sequences would count those that waited for the model.
	demand, known := memory.Learned.Rate.value()
	if !known {
		demand = float64(m.Demand.sequences()) + max(0, m.Demand.Rate)
	}
	if next, known := memory.Gaps.next(w.at); known && v.idle {
		demand = 1 / next.Seconds()
	}
	v.worth = demand / (max(1, m.bytes()) / (1 << 30))
	return v
}

// compare orders victims, the first to leave first.
func (v victim) compare(o victim) int {
	return cmp.Or(-cmp.Compare(v.model.Priority, o.model.Priority), -cmp.Compare(number(v.idle), number(o.idle)),
		cmp.Compare(v.worth, o.worth), v.last.Compare(o.last), cmp.Compare(v.Streams, o.Streams),
		cmp.Compare(v.Name, o.Name))
}

// price returns what a displacement costs, the most important figure first: the highest priority that
// leaves, whether it has work, its worth, how long it was not used, the streams that move, and the bytes that load.
func (w *world) price(q request, d *device, nodes map[string]int, leave []*replica) []float64 {
	priority, work, streams, worth, unused := -float64(Batch)-1, 0.0, 0.0, 0.0, math.Inf(1)
	for _, r := range leave {
		v := w.victim(r)
		priority = max(priority, -float64(r.model.Priority))
		if !v.idle {
			work = 1
		}
		streams += float64(r.Streams)
		worth += v.worth
		unused = min(unused, w.at.Sub(v.last).Seconds())
	}
	p := w.preferenceOf(q, d, nodes)
	return []float64{priority, work, worth, -unused, streams, float64(len(leave)), -float64(p.weights)}
}
