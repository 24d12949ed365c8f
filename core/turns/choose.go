package turns

import (
	"slices"
	"time"
)

// choose returns the replica that goes next, and why; nil: none waits.
func (m *Machine) choose(now time.Time) (*replica, Reason) {
	var waiting []*replica
	for _, r := range m.replicas {
		if r.state == Waiting {
			waiting = append(waiting, r)
		}
	}
	switch len(waiting) {
	case 0:
		return nil, Alone
	case 1:
		return waiting[0], Alone
	}
	if r := longest(waiting); now.Sub(r.since) >= m.cfg.MaxWait {
		return r, Waited
	}
	peers := highest(waiting)
	if len(peers) == 1 {
		return peers[0], Higher
	}
	if r := m.pressed(peers, now); r != nil {
		return r, Pressed
	}
	if r := m.prompted(peers); r != nil {
		return r, Prompted
	}
	return behind(peers), Share
}

// longest returns the replica that has waited longest, the first by name of several.
func longest(waiting []*replica) *replica {
	return slices.MinFunc(waiting, func(a, b *replica) int { return a.since.Compare(b.since) })
}

// highest returns the replicas of the highest class.
func highest(waiting []*replica) (peers []*replica) {
	top := waiting[0].request.Class
	for _, r := range waiting {
		top = max(top, r.request.Class)
	}
	for _, r := range waiting {
		if r.request.Class == top {
			peers = append(peers, r)
		}
	}
	return peers
}

// behind returns the replica furthest behind its fair share, the first by name of several.
func behind(peers []*replica) *replica {
	first := peers[0]
	for _, r := range peers[1:] {
		if r.virtual() < first.virtual() {
			first = r
		}
	}
	return first
}

// virtual returns the virtual time of a replica in the class of its request, in seconds.
func (r *replica) virtual() float64 { return r.used[r.request.Class] }

// most returns the virtual time up to which a replica may go before one that is further behind.
func (m *Machine) most(peers []*replica) float64 {
	return behind(peers).virtual() + m.cfg.Lead.Seconds()
}

// prompted returns the replica furthest behind among those that have a prompt to compute and are at most
// Lead ahead of the last; nil: there is none.
func (m *Machine) prompted(peers []*replica) *replica {
	most := m.most(peers)
	var all []*replica
	for _, r := range peers {
		if r.request.Prompt && r.virtual() <= most {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return behind(all)
}

// pressed returns the replica with the earliest deadline among those that still meet theirs, but
// would not if another went first, and that are at most Lead ahead of the last; nil: there is none.
func (m *Machine) pressed(peers []*replica, now time.Time) (first *replica) {
	most := m.most(peers)
	for i, r := range peers {
		if r.request.Deadline.IsZero() || r.virtual() > most {
			continue
		}
		slack := r.request.Deadline.Sub(now) - r.request.Estimate
		earliest := first == nil || r.request.Deadline.Before(first.request.Deadline)
		if earliest && slack >= 0 && slack < longestStep(peers, i) {
			first = r
		}
	}
	return first
}

// longestStep returns the longest step that the peers but one would run.
func longestStep(peers []*replica, but int) (most time.Duration) {
	for i, r := range peers {
		if i != but {
			most = max(most, r.request.Estimate)
		}
	}
	return most
}
