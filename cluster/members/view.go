package members

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// view is the bucket as one node knows it: key -> its last revision.
type view map[string]entry

// apply takes in a revision, and reports whether it says anything new. Of one key, only a later one counts.
func (v view) apply(e entry) bool {
	old, known := v[e.key]
	if known && e.revision <= old.revision {
		return false
	}
	v[e.key] = e
	return !e.equal(old)
}

// missed reports whether a revision of the key was passed over.
func (v view) missed(key string, previous uint64) bool { return previous > v[key].revision }

// retain is told which keys there are, up to a revision. A key that is not among them, and was not deleted either, is one
// that the bucket has lost. A lost lease is free; a lost member has until it counts as silent to write itself again.
func (v view) retain(keys map[string]bool, upTo uint64, now time.Time) {
	for key, e := range v {
		switch {
		case keys[key] || e.revision > upTo || e.revision == 0:
		case e.member != nil:
			e.revision, e.firstSeen = 0, now
			v[key] = e
		default:
			delete(v, key)
		}
	}
}

// live returns the members, by name.
func (v view) live() []*messages.Member {
	var all []*messages.Member
	for _, e := range v {
		if e.member != nil {
			all = append(all, e.member)
		}
	}
	slices.SortFunc(all, func(a, b *messages.Member) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// member returns the live member with an id, or nil.
func (v view) member(id string) *messages.Member {
	name := id[:max(strings.LastIndexByte(id, '.'), 0)]
	if e := v[memberKey(name)]; id != "" && e.memberID() == id {
		return e.member
	}
	return nil
}

// silent returns the members but self that were not renewed for a time, those that are silent for longest first.
func (v view) silent(self string, now time.Time, silentFor time.Duration) []entry {
	var found []entry
	for _, e := range v {
		if e.member != nil && e.memberID() != self && now.Sub(e.firstSeen) >= silentFor {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return cmp.Or(a.firstSeen.Compare(b.firstSeen), cmp.Compare(a.key, b.key)) })
	return found
}

// holder returns the live member that holds a role, and its term.
func (v view) holder(role string) (*messages.Member, uint64) {
	e := v[leaseKey(role)]
	if m := v.member(e.lease.GetMember()); m != nil {
		return m, e.revision
	}
	return nil, 0
}

// claim says whether a member holds a role already (then since which term), or may take it (then over which revision).
func (v view) claim(role, self string) (term uint64, held, free bool) {
	holder, term := v.holder(role)
	if holder == nil {
		return v[leaseKey(role)].revision, false, true
	}
	return term, holder.GetId() == self, false
}

// leasesOf returns the leases of a member, by role.
func (v view) leasesOf(id string) []entry {
	var held []entry
	for _, e := range v {
		if id != "" && e.lease.GetMember() == id {
			held = append(held, e)
		}
	}
	slices.SortFunc(held, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return held
}

// reign is a holder and its term.
type roleHolder struct {
	member string
	term   uint64
}

// state is what subscribers can see of a view.
type viewState struct {
	live   []*messages.Member
	leases map[string]roleHolder // of live holders
}

func (v view) state() viewState {
	p := viewState{live: v.live(), leases: map[string]roleHolder{}}
	for _, e := range v {
		if e.lease != nil && v.member(e.lease.GetMember()) != nil {
			p.leases[e.lease.GetName()] = roleHolder{e.lease.GetMember(), e.revision}
		}
	}
	return p
}

// since returns what changed from an earlier state to this one, and whether anything did.
func (p viewState) diff(before viewState) (Change, bool) {
	c := Change{Live: p.live, LeasesChanged: !maps.Equal(p.leases, before.leases)}
	ids := map[string]bool{}
	for _, m := range p.live {
		ids[m.GetId()] = true
	}
	for _, m := range before.live {
		if !ids[m.GetId()] {
			c.Left = append(c.Left, m)
		}
	}
	same := slices.EqualFunc(p.live, before.live, func(a, b *messages.Member) bool { return a == b || proto.Equal(a, b) })
	return c, c.LeasesChanged || !same
}
