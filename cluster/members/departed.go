package members

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// departedRetention is how long a member that is out of the cluster is remembered.
const departedRetention = 10 * time.Minute

// Departed is a member that is out of the cluster. Its state is lost or left.
type Departed struct {
	Member   *messages.Member
	LastSeen time.Time // when its record was renewed last, as this node saw it
	since    time.Time
}

// departed are the members that are out of the cluster, by name.
type departed map[string]Departed

// note takes in that a key changed from one entry to another. A name that has a live member is forgotten.
func (d departed) observe(before, after entry, now time.Time) {
	if after.member != nil {
		delete(d, after.member.GetName())
		return
	}
	if before.member == nil {
		return
	}
	m := proto.CloneOf(before.member)
	if m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING {
		m.State = messages.MemberState_MEMBER_STATE_LEFT
	} else {
		m.State = messages.MemberState_MEMBER_STATE_LOST
	}
	d[m.GetName()] = Departed{Member: m, LastSeen: before.firstSeen, since: now}
}

// list returns those that are still to be shown, by name, and forgets the others.
func (d departed) list(now time.Time) []Departed {
	var all []Departed
	for name, one := range d {
		if now.Sub(one.since) >= departedRetention {
			delete(d, name)
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Departed) int { return strings.Compare(a.Member.GetName(), b.Member.GetName()) })
	return all
}

// Departed returns the members that were lost, or left, in the last ten minutes, by name, as far as this node saw it.
func (m *Members) Departed() []Departed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.departed.list(time.Now())
}

// LastSeen returns when the record of a member was renewed last, as this node saw it.
func (m *Members) LastSeen(name string) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.view[memberKey(name)]
	return e.firstSeen, e.member != nil
}

// apply takes in a revision, and reports whether it says anything new. The caller holds mu.
func (m *Members) apply(e entry) bool {
	before := m.view[e.key]
	news := m.view.apply(e)
	m.departed.observe(before, m.view[e.key], time.Now())
	return news
}
