package members

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// departedRetention is how long a departed member is remembered.
const departedRetention = 10 * time.Minute

// Departed is a member that left the cluster or was lost, as its state shows.
type Departed struct {
	Member   *messages.Member
	LastSeen time.Time // time of the last renewal that this node saw, or of the member's deletion
	since    time.Time
}

// departed holds the recently departed members by name.
type departed map[string]Departed

// observe records the change of a key from before to after. A node that has just joined learns from a
// deleted key of the member that departed before. observe forgets a departed member when a
// live member has its name.
func (d departed) observe(before, after entry, now time.Time) {
	if after.member != nil {
		delete(d, after.member.GetName())
		return
	}
	gone, seen := before.member, before.firstSeen
	if gone == nil {
		if gone = after.last; gone == nil || d[gone.GetName()].Member != nil {
			return
		}
		if seen = after.deleted; seen.After(now) { // the clocks differ
			seen = now
		}
		now = seen
	}
	m := proto.CloneOf(gone)
	if m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING {
		m.State = messages.MemberState_MEMBER_STATE_LEFT
	} else {
		m.State = messages.MemberState_MEMBER_STATE_LOST
	}
	d[m.GetName()] = Departed{Member: m, LastSeen: seen, since: now}
}

// list returns the members within departedRetention, ordered by name, and forgets the others.
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

// Departed returns the members that left or were lost in the last ten minutes, ordered by name.
func (m *Members) Departed() []Departed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.departed.list(m.now())
}

// LastSeen returns the time of a member's last renewal that this node saw.
func (m *Members) LastSeen(name string) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.view[memberKey(name)]
	return e.firstSeen, e.member != nil
}

// apply applies a revision and reports whether it changes the content of the key. The caller holds
// mu.
func (m *Members) apply(e entry) bool {
	before := m.view[e.key]
	changed := m.view.apply(e)
	m.departed.observe(before, m.view[e.key], m.now())
	return changed
}
