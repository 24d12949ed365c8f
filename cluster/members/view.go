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

// view is a node's copy of the bucket: key → latest known revision.
type view map[string]entry

// apply applies a revision and reports whether it changes the content of the key. It ignores
// revisions that are not later than the known one.
func (v view) apply(e entry) bool {
	old, known := v[e.key]
	if known && e.revision <= old.revision {
		return false
	}
	v[e.key] = e
	return !e.equal(old)
}

// missed reports whether a revision of the key was skipped; previous is the revision before the one
// just received.
func (v view) missed(key string, previous uint64) bool { return previous > v[key].revision }

// retain removes keys that the bucket has lost: those that are not in keys, which lists the bucket
// up to the revision upTo. A lost lease becomes free. A lost member keeps its entry, with revision
// 0, and has until it counts as silent to write its record again.
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

// live returns the live members, ordered by name.
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

// member returns the live member with an ID, or nil.
func (v view) member(id string) *messages.Member {
	name := id[:max(strings.LastIndexByte(id, '.'), 0)]
	if e := v[memberKey(name)]; id != "" && e.memberID() == id {
		return e.member
	}
	return nil
}

// silent returns the members other than self without a renewal for silentFor, the longest silent
// first.
func (v view) silent(self string, now time.Time, silentFor time.Duration) []entry {
	var found []entry
	for _, e := range v {
		if e.member != nil && e.memberID() != self && now.Sub(e.firstSeen) >= silentFor {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b entry) int {
		return cmp.Or(a.firstSeen.Compare(b.firstSeen), cmp.Compare(a.key, b.key))
	})
	return found
}

// holder returns the live member that holds a role and its term, or nil and 0.
func (v view) holder(role string) (*messages.Member, uint64) {
	e := v[leaseKey(role)]
	if m := v.member(e.lease.GetMember()); m != nil {
		return m, e.revision
	}
	return nil, 0
}

// claim returns the state of a role for the member self. If self holds the role, held is set and
// term is the current term. If self may take it, free is set and term is the revision to write
// over.
func (v view) claim(role, self string) (term uint64, held, free bool) {
	holder, term := v.holder(role)
	if holder == nil {
		return v[leaseKey(role)].revision, false, true
	}
	return term, holder.GetId() == self, false
}

// leasesOf returns the leases of a member, ordered by role.
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

// roleHolder is the holder of a role and its term.
type roleHolder struct {
	member string
	term   uint64
}

// viewState is the part of a view that subscribers see.
type viewState struct {
	live   []*messages.Member
	leases map[string]roleHolder // of live holders
}

func (v view) state() viewState {
	s := viewState{live: v.live(), leases: map[string]roleHolder{}}
	for _, e := range v {
		if e.lease != nil && v.member(e.lease.GetMember()) != nil {
			s.leases[e.lease.GetName()] = roleHolder{e.lease.GetMember(), e.revision}
		}
	}
	return s
}

// diff returns the change from before to s, and whether there is any.
func (s viewState) diff(before viewState) (Change, bool) {
	c := Change{Live: s.live, LeasesChanged: !maps.Equal(s.leases, before.leases)}
	ids := map[string]bool{}
	for _, m := range s.live {
		ids[m.GetId()] = true
	}
	for _, m := range before.live {
		if !ids[m.GetId()] {
			c.Left = append(c.Left, m)
		}
	}
	same := slices.EqualFunc(s.live, before.live, func(a, b *messages.Member) bool {
		return a == b || proto.Equal(a, b)
	})
	return c, c.LeasesChanged || !same
}
