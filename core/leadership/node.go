package leadership

import (
	"maps"
	"slices"
	"time"
)

const (
	TakeoverDelay = 200 * time.Millisecond // between successive nodes that try to acquire a free lease
	CrashCooldown = 30 * time.Second       // before a deployment that crashed too often is retried
)

// Node decides which of the cluster's deployments one node runs.
type Node struct {
	name  string
	roles map[string]*role // by deployment
}

// role is the node's part in one deployment.
type role struct {
	state     State
	term      uint64    // of the child; in states Leading and Stopping
	freeSince time.Time // zero: the lease is held
	notBefore time.Time // of the next Acquire
}

// Lease is what a node observes of the lease of a deployment.
type Lease struct {
	Holder string // a live member; empty: none
	Term   uint64
}

// Seen is what a node observes of one deployment.
type Seen struct {
	Lease
	Stored bool // it is not deleted
	Leased bool // a lease exists, though its holder may be lost
}

// View is what a node observes of the cluster.
type View struct {
	Deployments map[string]Seen // the stored ones, those with a lease, and those of Names
	Up          []string        // members that are up, by name; a node not among them is leaving
}

// New returns the machine of a node.
func New(name string) *Node { return &Node{name: name, roles: make(map[string]*role)} }

// Names returns the deployments that the node remembers, in order.
func (n *Node) Names() []string { return slices.Sorted(maps.Keys(n.roles)) }

// State returns the state of a deployment.
func (n *Node) State(deployment string) State {
	if r := n.roles[deployment]; r != nil {
		return r.state
	}
	return Follower
}

// Sync compares the leases with what this node runs.
func (n *Node) Sync(view View, now time.Time) (effects []Effect) {
	for _, name := range slices.Sorted(maps.Keys(view.Deployments)) {
		if n.roles[name] == nil {
			n.roles[name] = &role{}
		}
	}
	for _, name := range n.Names() {
		effects = append(effects, n.syncRole(name, n.roles[name], view, now)...)
	}
	return effects
}

func (n *Node) syncRole(name string, r *role, view View, now time.Time) []Effect {
	seen := view.Deployments[name]
	if r.noteLease(seen.Lease, n.name, now); n.forget(name, r, seen) {
		return nil
	}
	rank, up := rankOf(n.name, name, view.Up)
	wait := r.freeSince.Add(time.Duration(rank) * TakeoverDelay).Sub(now)
	mine := seen.Holder == n.name
	tries := seen.Holder == "" && up && !now.Before(r.notBefore)
	from := r.state
	var c conditions
	c = c.with(isOurs, mine && up).with(isLeaving, mine && !up).with(isTurn, tries && wait <= 0)
	r.state, _ = next(from, sync, c.with(isCurrent, mine && up && seen.Term == r.term))
	switch {
	case r.state == Follower && tries:
		return []Effect{RetryAfter{wait}}
	case r.state == from:
		return nil
	}
	switch r.state {
	case Leading:
		r.term = seen.Term
		return []Effect{Start{name, seen.Term}}
	case Releasing:
		return []Effect{Release{name, seen.Term}}
	case Acquiring:
		return []Effect{Acquire{name}}
	case Stopping:
		return []Effect{Stop{name, LeaseLost, seen.Holder}}
	}
	panic("leadership: unexpected transition from " + from.String())
}

// noteLease records since when the lease has been free.
func (r *role) noteLease(l Lease, self string, now time.Time) {
	switch {
	case l.Holder == "" && r.freeSince.IsZero():
		r.freeSince = now
	case l.Holder != "" && l.Holder != self:
		r.freeSince = time.Time{}
	}
}

// forget forgets a deployment that this node no longer runs or may acquire, and reports whether it
// did.
func (n *Node) forget(name string, r *role, seen Seen) bool {
	over := r.state == Follower && !seen.Stored && (!seen.Leased || seen.Holder != "" && seen.Holder != n.name)
	if over {
		delete(n.roles, name)
	}
	return over
}

// Answered reports that an Acquire or Release has ended, with or without success.
func (n *Node) Answered(deployment string) []Effect {
	return n.event(deployment, answered, 0)
}

// NotStarted reports that the deployment could not be started. The next Sync tries again.
func (n *Node) NotStarted(deployment string) []Effect {
	return n.event(deployment, notStarted, 0)
}

// Removed reports that nothing is left of the deployment that ran in a term. If it was created
// again meanwhile, it continues.
func (n *Node) Removed(deployment string, term uint64, stored bool) []Effect {
	r := n.roles[deployment]
	effects := n.event(deployment, removed, conditions(0).with(isDeleted, r != nil && term == r.term && !stored))
	if len(effects) == 0 {
		effects = []Effect{Stop{deployment, Deleted, ""}}
	}
	return effects
}

// Ended reports that the deployment has stopped, or crashed too often. The lease is released if the
// node still holds it, so that another node takes over.
func (n *Node) Ended(deployment string, l Lease, now time.Time) []Effect {
	r := n.roles[deployment]
	from := n.State(deployment)
	holds := r != nil && l.Holder == n.name && l.Term == r.term
	effects := n.event(deployment, ended, conditions(0).with(isHeld, holds))
	if len(effects) > 0 || r.state != Releasing {
		return effects
	}
	if from == Leading { // it crashed
		r.notBefore = now.Add(CrashCooldown)
	}
	return []Effect{Release{deployment, r.term}}
}

// event applies an event to a role and returns Ignored if the table has no transition for it.
func (n *Node) event(deployment string, e Event, c conditions) []Effect {
	r := n.roles[deployment]
	if r == nil {
		return []Effect{Ignored{deployment, Follower, e}}
	}
	if to, ok := next(r.state, e, c); ok {
		r.state = to
		return nil
	}
	return []Effect{Ignored{deployment, r.state, e}}
}
