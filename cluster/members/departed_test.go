package members

import (
	"slices"
	"testing"
	"time"

	"troupe/messages"
)

func stateOf(all []Departed) (found []string) {
	for _, d := range all {
		found = append(found, d.Member.GetName()+" "+d.Member.GetState().String())
	}
	return found
}

// TestDepartedRetention checks that a departed member is remembered for ten minutes, or until a
// member of its name joins.
func TestDepartedRetention(t *testing.T) {
	d := departed{}
	now := time.Unix(1000, 0)
	at := func(name string, state messages.MemberState) entry {
		return entry{
			key:       memberKey(name),
			member:    &messages.Member{Name: name, State: state},
			firstSeen: now.Add(-time.Second),
		}
	}
	up, leaving := messages.MemberState_MEMBER_STATE_UP, messages.MemberState_MEMBER_STATE_LEAVING
	b := at("b", up)
	d.observe(entry{}, at("a", leaving), now)
	d.observe(at("a", leaving), entry{}, now)
	d.observe(b, entry{}, now.Add(time.Minute))
	d.observe(at("c", up), entry{}, now)
	d.observe(entry{}, at("c", up), now) // c is back
	d.observe(entry{key: leaseKey("x"), lease: &messages.Lease{Name: "x"}}, entry{}, now)
	all := d.list(now.Add(2 * time.Minute))
	if got, want := stateOf(all), []string{"a MEMBER_STATE_LEFT", "b MEMBER_STATE_LOST"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !all[1].LastSeen.Equal(now.Add(-time.Second)) {
		t.Errorf("b was last seen at %s", all[1].LastSeen)
	}
	if b.member.GetState() != up {
		t.Error("the record of the member was changed")
	}
	if got := stateOf(d.list(now.Add(departedRetention))); !slices.Equal(got, []string{"b MEMBER_STATE_LOST"}) {
		t.Errorf("after ten minutes: %v", got)
	}
	if got := d.list(now.Add(time.Minute + departedRetention)); len(got)+len(d) != 0 {
		t.Errorf("after eleven minutes: %v", got)
	}
}

// TestDepartedMembers checks that nodes remember the members that left or were lost until they are
// back.
func TestDepartedMembers(t *testing.T) {
	s := startServer(t)
	nodes := s.joinVigilant("a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	if err := b.SetLeaving(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.crash()
	want := []string{"b MEMBER_STATE_LEFT", "c MEMBER_STATE_LOST"}
	a.until("both are known to be gone", func() bool { return slices.Equal(stateOf(a.Departed()), want) })
	if _, ok := a.LastSeen("c"); ok {
		t.Error("c is a member")
	}
	if seen, ok := a.LastSeen("a"); !ok || seen.IsZero() {
		t.Error("a does not know its own last renewal")
	}
	s.join("c")
	a.until("c is back", func() bool { return slices.Equal(stateOf(a.Departed()), want[:1]) })
}

// TestRenewalsFailingSince checks that failing renewals are reported once they outlast an election,
// until one succeeds.
func TestRenewalsFailingSince(t *testing.T) {
	c := newNATSHealth()
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	check := func(ms int, want bool) {
		t.Helper()
		if since, ok := c.renewalsFailingSince(at(ms)); ok != want || ok && !since.Equal(at(100)) {
			t.Errorf("at %d ms: %v, since %s", ms, ok, since)
		}
	}
	check(5000, false) // no renewal yet
	c.renewSucceeded(at(0), at(1))
	c.renewFailed(at(100))
	check(1300, false) // an election
	c.renewFailed(at(700))
	check(2499, false)
	check(2500, true)
	c.disconnected(at(2600)) // reconnecting is not a successful renewal
	check(2700, true)
	c.renewSucceeded(at(2800), at(2801))
	check(9000, false)
	// A stall is not a failed renewal.
	c.tick(at(20000))
	check(20001, false)
}

// TestDepartedBeforeJoin checks that a node knows the members that left or were lost before it joined.
func TestDepartedBeforeJoin(t *testing.T) {
	s := startServer(t)
	nodes := s.joinVigilant("a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	if err := b.SetLeaving(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := c.Self().GetAddress()
	c.crash()
	want := []string{"b MEMBER_STATE_LEFT", "c MEMBER_STATE_LOST"}
	a.until("both are known to be gone", func() bool { return slices.Equal(stateOf(a.Departed()), want) })
	late := s.join("d")
	late.until("both are known to be gone", func() bool { return slices.Equal(stateOf(late.Departed()), want) })
	if lost := late.Departed()[1]; time.Since(lost.LastSeen) > time.Minute || lost.Member.GetAddress() != address {
		t.Errorf("c was last seen at %s, with address %q, want %q", lost.LastSeen, lost.Member.GetAddress(), address)
	}
}
