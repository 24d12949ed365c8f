package membership_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/members"
	"troupe/messages"
	"troupe/node/membership"
	"troupe/node/stored"
)

// calls records the changes that are passed on.
type calls struct{ all *[]string }

func (c calls) add(format string, args ...any) { *c.all = append(*c.all, fmt.Sprintf(format, args...)) }

type link struct{ calls }

func (l link) SetMembers(addresses []string) { l.add("link %s", addresses) }

type bus struct{ calls }

func (b bus) SetMembers(live []*messages.Member) { b.add("bus %d", len(live)) }

type audit struct{ calls }

func (a audit) Members(live, left []*messages.Member) { a.add("audit %d %d", len(live), len(left)) }

func live() []*messages.Member {
	return []*messages.Member{
		{Name: "a", Address: "1:1", State: messages.MemberState_MEMBER_STATE_UP},
		{Name: "b", Address: "2:2", State: messages.MemberState_MEMBER_STATE_LEAVING},
	}
}

func departed() []members.Departed {
	return []members.Departed{{Member: &messages.Member{Name: "c"}, LastSeen: time.Unix(5, 0)}}
}

// TestChanges checks which parts are notified of a change, and in which order.
func TestChanges(t *testing.T) {
	var all []string
	c := calls{&all}
	changes := membership.Changes{
		Nodes: &membership.Nodes{Self: "a", Live: live, Departed: departed, Drained: &stored.Drained{}},
		Link:  link{c}, Bus: bus{c}, Audit: audit{c},
		Publish: func(kind, subject, _ string) { c.add("event %s %s", kind, subject) },
		Send: func(m *messages.MembersChanged) {
			c.add("send %d %d %v", len(m.GetMembers()), len(m.GetLeft()),
				m.GetDeparted()[0].GetLastSeen().AsTime().Unix())
		},
		Log: zerolog.Nop(),
	}
	changes.On(members.Change{Live: live(), Left: []*messages.Member{{Name: "c"}}, Rejoined: true})
	changes.OnDrained()
	want := []string{"link [1:1 2:2]", "bus 2", "audit 2 1", "event node.rejoined a", "send 2 1 5", "send 2 0 5"}
	if !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
}

// TestHavePeers checks that neither a leaving node nor the node itself counts as a peer.
func TestHavePeers(t *testing.T) {
	for self, want := range map[string]bool{"a": false, "b": true, "c": true} {
		n := membership.Nodes{Self: self, Live: live, Departed: departed, Drained: &stored.Drained{}}
		if n.HavePeers() != want {
			t.Errorf("%s: %t", self, !want)
		}
	}
}

// TestDescription checks the record of a node that listens on all addresses.
func TestDescription(t *testing.T) {
	m := &messages.Member{}
	membership.Description{
		Address: "0.0.0.0:8000", DataAddress: "10.0.0.1:9", Advertise: "llm-1", Version: "1.0.0",
		Started: time.Unix(5, 0), GPUs: []string{"gpu-0"},
		InboxPrefixes: func() []string { return []string{"_INBOX_x"} },
	}.Fill(m)
	if m.GetHttpUrl() != "http://llm-1:8000" || m.GetNatsUrl() != "" || m.GetStarted().GetSeconds() != 5 ||
		len(m.GetGpus()) != 1 || len(m.GetInboxPrefixes()) != 1 {
		t.Error(m)
	}
	for address, want := range map[string]string{"127.0.0.1:1": "127.0.0.1:1", ":1": "h:1", "[::]:1": "h:1"} {
		if got := membership.Advertised(address, "h"); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// holders are members, one of which holds one role.
type holders struct {
	membership.LeaseHolders
	self *messages.Member
}

func (h holders) Self() *messages.Member { return h.self }

func (holders) Holder(role string) (*messages.Member, uint64, bool) {
	return &messages.Member{Name: "a", Id: "a.2"}, 7, role == "planner"
}

func (holders) Acquire(_ context.Context, role string) (uint64, bool, error) {
	return 8, strings.HasPrefix(role, "free"), nil
}

// TestLeases checks a role that is held and one that is free.
func TestLeases(t *testing.T) {
	l := membership.Leases{Node: "b", Members: holders{}}
	if m, term := l.Holder("planner"); m != "a" || term != 7 {
		t.Error(m, term)
	}
	if m, term := l.Holder("other"); m != "" || term != 0 {
		t.Error(m, term)
	}
	if ok, err := l.Acquire(t.Context(), "free"); !ok || err != nil {
		t.Error(ok, err)
	}
}

// TestLeasesOfAnEarlierProcess checks that a node does not take a lease for its own that a process before
// it held, neither before it has joined nor afterwards.
func TestLeasesOfAnEarlierProcess(t *testing.T) {
	for id, want := range map[string]string{"": "a.2", "a.2": "a", "a.3": "a.2"} {
		h := holders{}
		if id != "" {
			h.self = &messages.Member{Name: "a", Id: id}
		}
		if m, term := (membership.Leases{Node: "a", Members: h}).Holder("planner"); m != want || term != 7 {
			t.Errorf("the holder seen by %q is %q in term %d, want %q in 7", id, m, term, want)
		}
	}
}
