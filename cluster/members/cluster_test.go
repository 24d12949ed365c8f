package members

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

func TestJoin(t *testing.T) {
	s := startServer(t)
	a := s.open("a", func(c *Config) {
		c.Describe = func(m *messages.Member) { m.HttpUrl, m.Gpus = "http://a", []string{"gpu-0"} }
	})
	if a.Self() != nil || len(a.Live()) != 0 {
		t.Fatal("a node that has not joined is a member")
	}
	if err := a.join(t); err != nil {
		t.Fatal(err)
	}
	b := s.join("b")
	b.until("both are known", func() bool { return b.knows("a", "b") })
	got, ok := memberAt(b.Members, a.address)
	if !ok || got.GetId() != a.Self().GetId() || got.GetHttpUrl() != "http://a" || len(got.GetGpus()) != 1 ||
		got.GetState() != messages.MemberState_MEMBER_STATE_UP || got.GetStarted() == nil {
		t.Errorf("member a in the view of b: %v", got)
	}
	if _, ok := memberAt(b.Members, "c:1"); ok {
		t.Error("a member at c:1 was found")
	}
	if err := a.join(t); err == nil {
		t.Error("a node joined twice")
	}
	if err := a.SetLeaving(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until("a is leaving", func() bool {
		m, _ := memberAt(b.Members, a.address)
		return m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING
	})
}

// TestRefusedConnectionIsDead checks that a silent member whose address refuses connections is
// deleted at once, and that one whose address accepts them is not.
func TestRefusedConnectionIsDead(t *testing.T) {
	s := startServer(t)
	long := func(c *Config) { c.SilentFor = time.Hour }
	join := func(name string, listens bool) *node {
		n := s.open(name, long)
		if !listens {
			n.address = refusedAddress(t)
		}
		if err := n.join(t); err != nil {
			t.Fatal(err)
		}
		return n
	}
	watcher, stopped, killed := join("a", true), join("b", true), join("c", false)
	watcher.until("all are known", func() bool { return watcher.knows("a", "b", "c") })
	stopped.crash() // its address still accepts connections, like that of a stopped process
	killed.crash()
	watcher.until("c is dead, b may live", func() bool { return watcher.knows("a", "b") })
}

// refusedAddress returns an address that refuses connections.
func refusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestCrashIsDetectedByAll checks that a member is dead SilentFor after its last renewal, and not
// earlier, and that its successor has another ID.
func TestCrashIsDetectedByAll(t *testing.T) {
	s := startServer(t)
	n := s.joinVigilant("a", "b", "c")
	dead, silentFor := n[2].Self().GetId(), n[2].cfg.SilentFor
	s.settle()
	n[2].crash()
	renewed := n[2].health.lastRenewed
	for _, one := range n[:2] {
		one.until("c is dead", func() bool { return one.knows("a", "b") })
		if silent := s.clock.Now().Sub(renewed); silent < silentFor || silent > silentFor+2*stepTime {
			t.Errorf("%s: dead after %s of silence", one.cfg.Name, silent)
		}
		one.until("notification that c left", func() bool { return one.received(left("c")) })
	}
	c := s.join("c")
	if c.Self().GetId() == dead {
		t.Errorf("id %s was used again", dead)
	}
	n[0].until("c is back", func() bool { return n[0].knows("a", "b", "c") })
}

func TestLeave(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b")
	if _, ok, err := n[0].Acquire(t.Context(), "planner"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	n[1].until("a plans", func() bool { _, _, ok := n[1].Holder("planner"); return ok })
	if err := n[0].Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := n[1].kv.get(t.Context(), memberKey("a"))
	if err != nil || e.member != nil {
		t.Errorf("record of a node that left: %v, %v", e.member, err)
	}
	if e, err = n[1].kv.get(t.Context(), leaseKey("planner")); err != nil || e.lease != nil {
		t.Errorf("its lease: %v, %v", e.lease, err)
	}
	n[1].until("a has left", func() bool { return n[1].received(left("a")) && n[1].knows("b") })
	if _, _, err := n[0].Acquire(t.Context(), "planner"); !errors.Is(err, ErrNotMember) {
		t.Errorf("a node that left acquired a lease: %v", err)
	}
	n[0].address = "127.0.0.1:2"
	if err := n[0].join(t); err != nil {
		t.Fatal(err)
	}
	n[1].until("a is back", func() bool { _, ok := memberAt(n[1].Members, "127.0.0.1:2"); return ok })
}

// TestStalledNodeIsFenced stops a node's renewals, as SIGSTOP would, until the others declare it
// dead.
func TestStalledNodeIsFenced(t *testing.T) {
	s := startServer(t)
	n := s.joinVigilant("a", "b", "c")
	a, b := n[0], n[1]
	old := a.Self()
	term, ok, err := a.Acquire(t.Context(), "planner")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	s.settle()
	a.apart = true
	a.writeMu.Lock()
	b.until("a is dead", func() bool { return b.knows("b", "c") })
	newTerm := uint64(0)
	b.until("b plans", func() bool {
		newTerm, ok, err = b.Acquire(t.Context(), "planner")
		return err == nil && ok
	})
	if newTerm <= term {
		t.Errorf("term %d after %d", newTerm, term)
	}
	a.writeMu.Unlock()
	a.apart = false
	a.until("a has joined again", func() bool { return a.received(func(c Change) bool { return c.Rejoined }) })
	if self := a.Self(); self.GetId() == old.GetId() || self.GetIncarnation() <= old.GetIncarnation() {
		t.Errorf("fenced as %s, rejoined as %s", old.GetId(), self.GetId())
	}
	if holder, at, _ := a.Holder("planner"); holder.GetName() != "b" || at != newTerm {
		t.Errorf("in the view of a, %v is the planner at term %d", holder, at)
	}
	if got, ok, err := a.Acquire(t.Context(), "planner"); ok || err != nil {
		t.Errorf("a acquired b's lease: %d, %v", got, err)
	}
	b.until("a is back", func() bool {
		m, ok := memberAt(b.Members, a.address)
		return ok && m.GetId() == a.Self().GetId()
	})
	if b.received(left("c")) || a.received(left("c")) || a.received(left("b")) {
		t.Error("a node that stalled must not declare others dead")
	}
}

func TestNameConflict(t *testing.T) {
	s := startServer(t)
	a := s.join("a")
	other := s.open("a", func(c *Config) { c.Instance = "another" })
	err := other.join(t)
	if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), a.address) ||
		!strings.Contains(err.Error(), "--name") {
		t.Errorf("a second node named a: %v", err)
	}
	if other.Self() != nil {
		t.Error("it became a member")
	}
}

// TestRestartTakesOverName starts a node on the same data folder while the record of its previous
// incarnation still exists.
func TestRestartTakesOverName(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b")
	was := n[0].Self()
	n[0].crash()
	a := s.join("a")
	if a.Self().GetIncarnation() <= was.GetIncarnation() {
		t.Errorf("incarnation %d after %d", a.Self().GetIncarnation(), was.GetIncarnation())
	}
	n[1].until(
		"the new a is known",
		func() bool { m, ok := memberAt(n[1].Members, a.address); return ok && m.GetId() == a.Self().GetId() },
	)
	n[1].until("the old a has left", func() bool {
		return n[1].received(func(c Change) bool { return len(c.Left) == 1 && c.Left[0].GetId() == was.GetId() })
	})
}

// TestJoinTakesNameOfDeadMember joins under the name of another instance that died without other
// members to detect it.
func TestJoinTakesNameOfDeadMember(t *testing.T) {
	s := startServer(t)
	s.join("a").crash()
	other := s.open("a", func(c *Config) { c.Instance = "another" })
	if err := other.join(t); err != nil {
		t.Fatal(err)
	}
}

func TestServerRestartKeepsMembers(t *testing.T) {
	for name, wipe := range map[string]bool{"store kept": false, "store lost": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			n := s.joinVigilant("a", "b", "c")
			ids := map[string]string{}
			for _, one := range n {
				ids[one.cfg.Name] = one.Self().GetId()
			}
			term, _, err := n[0].Acquire(t.Context(), "planner")
			if err != nil {
				t.Fatal(err)
			}
			s.restart(wipe)
			for _, one := range n {
				one.until("can suspect others", func() bool { return one.canSuspect() && one.knows("a", "b", "c") })
			}
			// By now a lost record would have shown. A fourth node reads the bucket itself.
			d := s.join("d")
			d.until("all are there", func() bool { return d.knows("a", "b", "c", "d") })
			for _, m := range d.Live()[:3] {
				if m.GetId() != ids[m.GetName()] {
					t.Errorf("%s became %s", ids[m.GetName()], m.GetId())
				}
			}
			for _, one := range n {
				if one.received(func(c Change) bool { return len(c.Left) > 0 || c.Rejoined }) {
					t.Errorf("%s was notified that a member left", one.cfg.Name)
				}
			}
			again, ok, err := n[0].Acquire(t.Context(), "planner")
			if err != nil || !ok || again < term || (wipe && again == term) {
				t.Errorf("term %d after %d (%v, %v)", again, term, ok, err)
			}
		})
	}
}

// TestPartition disconnects one node from NATS until the others declare it dead. The network heals
// in real time, because nats.go finds a silent connection by pings of its own.
func TestPartition(t *testing.T) {
	s := startServer(t)
	n := s.joinVigilant("a", "b")
	p := startProxy(t, s.listen)
	s.listen = p.address()
	c := s.join("c")
	for _, one := range append(n, c) {
		one.until("knows all and can suspect them", func() bool { return one.knows("a", "b", "c") && one.canSuspect() })
	}
	was := c.Self().GetId()
	s.settle()
	c.apart = true
	p.cut(true)
	n[0].until("c is dead", func() bool { return n[0].knows("a", "b") })
	if !c.knows("a", "b", "c") {
		t.Error("a disconnected node declared others dead")
	}
	cut := s.clock.Now().Add(-time.Nanosecond)
	p.cut(false)
	testkit.Until(t, "c has another connection", func() bool { return c.conn.Stats().Reconnects > 0 })
	c.apart = false
	c.until("has noticed it", func() bool { return c.connectedSince(cut) })
	n[0].until("c is back", func() bool { return n[0].knows("a", "b", "c") })
	c.until("c was fenced", func() bool { return c.received(func(c Change) bool { return c.Rejoined }) })
	if c.Self().GetId() == was {
		t.Error("c kept its ID")
	}
	if c.received(left("a")) || c.received(left("b")) {
		t.Error("after the partition c declared others dead")
	}
}

// TestAcquireWithoutNATS checks that a node that may have been deleted acquires no lease.
func TestAcquireWithoutNATS(t *testing.T) {
	s := startServer(t)
	a := s.join("a")
	s.stop()
	a.until("the node may have been deleted", func() bool {
		a.Members.mu.Lock()
		defer a.Members.mu.Unlock()
		return !a.health.leaseValid(s.clock.Now())
	})
	if _, _, err := a.Acquire(t.Context(), "planner"); !errors.Is(err, ErrNotMember) {
		t.Errorf("got %v", err)
	}
	if a.Self() == nil || !a.knows("a") {
		t.Error("a lost server must not end a membership")
	}
}
