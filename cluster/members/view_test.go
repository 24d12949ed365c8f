package members

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/messages"
)

var epoch = time.Unix(1_700_000_000, 0)

func memberEntry(name string, incarnation, revision uint64, seen time.Time) entry {
	m := &messages.Member{Name: name, Incarnation: incarnation, Address: name + ":1"}
	m.Id = idOf(m)
	return entry{key: memberKey(name), revision: revision, member: m, firstSeen: seen}
}

func leaseEntry(role, member string, revision uint64) entry {
	return entry{key: leaseKey(role), revision: revision, lease: &messages.Lease{Name: role, Member: member}}
}

func viewOf(entries ...entry) view {
	v := view{}
	for _, e := range entries {
		v.apply(e)
	}
	return v
}

func TestClaim(t *testing.T) {
	a, b := memberEntry("a", 1, 1, epoch), memberEntry("b.x", 1, 2, epoch)
	for name, c := range map[string]struct {
		view       view
		term       uint64
		held, free bool
	}{
		"never taken":      {viewOf(a, b), 0, false, true},
		"own":              {viewOf(a, b, leaseEntry("r", "a.1", 3)), 3, true, false},
		"another's":        {viewOf(a, b, leaseEntry("r", "b.x.1", 3)), 3, false, false},
		"of a dead member": {viewOf(a, leaseEntry("r", "b.x.1", 3)), 3, false, true},
		"of an earlier incarnation": {viewOf(a, b, memberEntry("b.x", 2, 5, epoch), leaseEntry("r", "b.x.1", 3)),
			3, false, true},
		"of own earlier incarnation": {viewOf(a, b, leaseEntry("r", "a.0", 3)), 3, false, true},
		"released": {viewOf(a, b, leaseEntry("r", "a.1", 3), entry{key: leaseKey("r"), revision: 4}),
			4, false, true},
		"another role":     {viewOf(a, b, leaseEntry("s", "b.x.1", 3)), 0, false, true},
		"without a member": {viewOf(a, leaseEntry("r", "", 3)), 3, false, true},
	} {
		if term, held, free := c.view.claim("r", "a.1"); term != c.term || held != c.held || free != c.free {
			t.Errorf("%s: term %d, held %v, free %v", name, term, held, free)
		}
	}
}

func TestDecideClaim(t *testing.T) {
	const grace = 2 * time.Second
	theirs, later := memberEntry("a", 1, 5, epoch), memberEntry("a", 1, 6, epoch)
	mine := memberEntry("a", 1, 5, epoch)
	mine.member.Instance = "mine"
	for name, c := range map[string]struct {
		first, now entry
		waited     time.Duration
		want       verdict
	}{
		"free":                        {entry{}, entry{}, 0, take},
		"deleted":                     {theirs, entry{revision: 6}, time.Second, take},
		"own":                         {mine, mine, 0, take},
		"theirs, not renewed yet":     {theirs, theirs, time.Second, wait},
		"theirs, renewed":             {theirs, later, time.Second, refuse},
		"theirs, silent for too long": {theirs, theirs, grace, take},
	} {
		if got := decideClaim(c.first, c.now, "mine", epoch, epoch.Add(c.waited), grace); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := decideClaim(theirs, theirs, "", epoch, epoch, grace); got != wait {
		t.Errorf("without an instance: %d, want wait", got)
	}
}

func TestRenewOver(t *testing.T) {
	self := memberEntry("a", 3, 9, epoch).member
	for name, c := range map[string]struct {
		now   entry
		over  uint64
		alive bool
	}{
		"own renewal without reply": {memberEntry("a", 3, 10, epoch), 10, true},
		"the bucket has lost it":    {entry{}, 0, true},
		"deleted":                   {entry{revision: 11}, 11, false},
		"another has the name":      {memberEntry("a", 4, 12, epoch), 12, false},
	} {
		if over, alive := renewOver(self, c.now); over != c.over || alive != c.alive {
			t.Errorf("%s: %d, %v", name, over, alive)
		}
	}
}

func TestNextIncarnation(t *testing.T) {
	now := uint64(epoch.UnixMilli())
	if got := nextIncarnation(epoch, 0); got != now {
		t.Error(got)
	}
	if got := nextIncarnation(epoch, now, now+7); got != now+8 {
		t.Errorf("after the clock was set back: %d", got)
	}
}

func TestSilent(t *testing.T) {
	v := viewOf(
		memberEntry("self", 1, 1, epoch),
		memberEntry("old", 1, 2, epoch),
		memberEntry("older", 1, 3, epoch.Add(-time.Second)),
		memberEntry("fresh", 1, 4, epoch.Add(time.Second)),
		entry{key: memberKey("dead"), revision: 5},
	)
	var names []string
	for _, e := range v.silent("self.1", epoch.Add(1200*time.Millisecond), 1200*time.Millisecond) {
		names = append(names, e.member.GetName())
	}
	if !slices.Equal(names, []string{"older", "old"}) {
		t.Errorf("silent: %v", names)
	}
}

// TestRetain distinguishes keys that the bucket has lost from deleted ones.
func TestRetain(t *testing.T) {
	v := viewOf(
		memberEntry("kept", 1, 1, epoch),
		memberEntry("lost", 1, 2, epoch),
		leaseEntry("r", "kept.1", 3),
		memberEntry("new", 1, 99, epoch),
	)
	now := epoch.Add(time.Hour)
	v.retain(map[string]bool{memberKey("kept"): true}, 50, now)
	if e := v[memberKey("lost")]; e.member == nil || e.revision != 0 || e.firstSeen != now {
		t.Errorf("a lost member must have time to write its record again: %+v", e)
	}
	if _, ok := v[leaseKey("r")]; ok {
		t.Error("a lost lease is still held")
	}
	if v[memberKey("kept")].revision != 1 || v[memberKey("new")].revision != 99 {
		t.Error("keys that are listed, or newer than the list, must stay")
	}
	if !v.apply(memberEntry("lost", 2, 60, now)) || v[memberKey("lost")].revision != 60 {
		t.Error("a lost member cannot come back")
	}
}

// TestApplyInAnyOrder checks that revisions may arrive twice, late and in any order. The last one
// of each key counts.
func TestApplyInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var history []entry
		last := map[string]entry{}
		for revision := range uint64(rapid.IntRange(1, 20).Draw(t, "revisions")) {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
			e := memberEntry(name, 1, revision+1, epoch)
			if rapid.Bool().Draw(t, "deleted") {
				e.member = nil
			}
			history, last[e.key] = append(history, e), e
		}
		delivered := append(slices.Clone(history), history...)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		random.Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })
		v := viewOf(delivered...)
		for key, e := range last {
			if got := v[key]; got.revision != e.revision || got.memberID() != e.memberID() {
				t.Fatalf("%s: revision %d, want %d", key, got.revision, e.revision)
			}
		}
	})
}

// TestLeases lets nodes with views of any age claim a role by compare-and-swap, die and rejoin.
func TestLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth, history := view{}, []entry(nil) // the bucket
		write := func(e entry, over uint64) bool {
			if truth[e.key].revision != over {
				return false
			}
			e.revision = uint64(len(history) + 1)
			truth.apply(e)
			history = append(history, e)
			return true
		}
		type node struct {
			view        view
			read        int // number of entries read from history
			incarnation uint64
		}
		nodes := map[string]*node{"a": {view: view{}}, "b": {view: view{}}, "c": {view: view{}}}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		terms := map[uint64]string{} // term → holder
		highest := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				n := name.Draw(t, "node")
				nodes[n].incarnation++
				write(memberEntry(n, nodes[n].incarnation, 0, epoch), truth[memberKey(n)].revision)
			},
			"die": func(t *rapid.T) {
				n := name.Draw(t, "node")
				if e := truth[memberKey(n)]; e.member != nil {
					write(entry{key: e.key}, e.revision)
				}
			},
			"read": func(t *rapid.T) {
				n := nodes[name.Draw(t, "node")]
				for range rapid.IntRange(1, 5).Draw(t, "changes") {
					if n.read < len(history) {
						n.view.apply(history[n.read])
						n.read++
					}
				}
			},
			"acquire": func(t *rapid.T) {
				who := name.Draw(t, "node")
				n := nodes[who]
				self := fmt.Sprintf("%s.%d", who, n.incarnation)
				over, _, free := n.view.claim("r", self)
				before, _ := truth.holder("r")
				if !free || !write(leaseEntry("r", self, 0), over) {
					return
				}
				if before != nil && n.view.member(self) != nil {
					t.Fatalf("%s took the lease of %s, which is live", self, before.GetId())
				}
				term := truth[leaseKey("r")].revision
				if term <= highest || terms[term] != "" {
					t.Fatalf("term %d of %s after term %d of %s", term, self, highest, terms[term])
				}
				terms[term], highest = self, term
			},
		})
	})
}

func TestViewStateDiff(t *testing.T) {
	a, b := memberEntry("a", 1, 1, epoch), memberEntry("b", 1, 2, epoch)
	lease := leaseEntry("r", "b.1", 3)
	base := viewOf(a, b, lease)
	renewed := viewOf(memberEntry("a", 1, 9, epoch.Add(time.Second)), b, lease)
	leaving := memberEntry("a", 1, 9, epoch)
	leaving.member.State = messages.MemberState_MEMBER_STATE_LEAVING
	for name, c := range map[string]struct {
		after  view
		any    bool
		left   int
		leases bool
	}{
		"renewed":         {renewed, false, 0, false},
		"leaving":         {viewOf(leaving, b, lease), true, 0, false},
		"joined":          {viewOf(a, b, lease, memberEntry("c", 1, 5, epoch)), true, 0, false},
		"left":            {viewOf(b, lease), true, 1, false},
		"the holder left": {viewOf(a, lease), true, 1, true},
		"back as another": {viewOf(memberEntry("a", 2, 9, epoch), b, lease), true, 1, false},
		"another term":    {viewOf(a, b, leaseEntry("r", "b.1", 4)), true, 0, true},
	} {
		change, any := c.after.state().diff(base.state())
		if any != c.any || len(change.Left) != c.left || change.LeasesChanged != c.leases {
			t.Errorf("%s: %v, %+v", name, any, change)
		}
	}
}
