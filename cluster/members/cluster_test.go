package members

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"troupe/messages"
)

func TestJoin(t *testing.T) {
	s := startServer(t)
	a := s.open("a", func(c *Config) {
		c.Describe = func(m *messages.Member) { m.HttpUrl, m.Gpus = "http://a", []string{"gpu-0"} }
	})
	if a.Self() != nil || len(a.Live()) != 0 {
		t.Fatal("a node that has not joined is no member")
	}
	if err := a.Join(t.Context(), "a:1"); err != nil {
		t.Fatal(err)
	}
	b := s.join("b")
	b.until("both are known", func() bool { return b.knows("a", "b") })
	got, ok := b.MemberAt("a:1")
	if !ok || got.GetId() != a.Self().GetId() || got.GetHttpUrl() != "http://a" || len(got.GetGpus()) != 1 ||
		got.GetState() != messages.MemberState_MEMBER_STATE_UP || got.GetStarted() == nil {
		t.Errorf("member a, as b knows it: %v", got)
	}
	if _, ok := b.MemberAt("c:1"); ok {
		t.Error("nobody is reached at c:1")
	}
	if err := a.Join(t.Context(), "a:1"); err == nil {
		t.Error("a node joined twice")
	}
	if err := a.SetLeaving(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until("a is leaving", func() bool {
		m, _ := b.MemberAt("a:1")
		return m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING
	})
}

// TestRefusedConnectionIsDead: that nobody listens at its address any more tells more than a silence that proves nothing yet.
func TestRefusedConnectionIsDead(t *testing.T) {
	s := startServer(t)
	patient := func(c *Config) { c.SilentFor = time.Hour }
	join := func(name string, listens bool) *node {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		n := s.open(name, patient)
		if err := n.Join(t.Context(), listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if !listens {
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	watcher, stopped, killed := join("a", true), join("b", true), join("c", false)
	watcher.until("all are known", func() bool { return watcher.knows("a", "b", "c") })
	stopped.crash() // its address goes on listening, as that of a process that is stopped
	killed.crash()
	watcher.until("c is dead, b may live", func() bool { return watcher.knows("a", "b") })
}

func TestCrashIsDetectedByAll(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b", "c")
	dead := n[2].Self().GetId()
	n[2].crash()
	for _, one := range n[:2] {
		one.until("c is dead", func() bool { return one.knows("a", "b") })
		one.until("told that c left", func() bool { return one.received(left("c")) })
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
		t.Errorf("the record of a node that left: %v, %v", e.member, err)
	}
	if e, err = n[1].kv.get(t.Context(), leaseKey("planner")); err != nil || e.lease != nil {
		t.Errorf("its lease: %v, %v", e.lease, err)
	}
	n[1].until("a has left", func() bool { return n[1].received(left("a")) && n[1].knows("b") })
	if _, _, err := n[0].Acquire(t.Context(), "planner"); !errors.Is(err, ErrNotMember) {
		t.Errorf("a node that left takes a lease: %v", err)
	}
	if err := n[0].Join(t.Context(), "a:2"); err != nil {
		t.Fatal(err)
	}
	n[1].until("a is back", func() bool { _, ok := n[1].MemberAt("a:2"); return ok })
}

// TestStalledNodeIsFenced stops a node's clock, as SIGSTOP would, until it was taken for dead.
func TestStalledNodeIsFenced(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b", "c")
	a, b := n[0], n[1]
	old := a.Self()
	term, ok, err := a.Acquire(t.Context(), "planner")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
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
	a.until("a has joined again", func() bool { return a.received(func(c Change) bool { return c.Rejoined }) })
	if self := a.Self(); self.GetId() == old.GetId() || self.GetIncarnation() <= old.GetIncarnation() {
		t.Errorf("fenced as %s, it came back as %s", old.GetId(), self.GetId())
	}
	if holder, at, _ := a.Holder("planner"); holder.GetName() != "b" || at != newTerm {
		t.Errorf("a takes %v for the planner, at term %d", holder, at)
	}
	if got, ok, err := a.Acquire(t.Context(), "planner"); ok || err != nil {
		t.Errorf("a takes b's lease: %d, %v", got, err)
	}
	b.until("a is back", func() bool { m, ok := b.MemberAt("a:1"); return ok && m.GetId() == a.Self().GetId() })
	if b.received(left("c")) || a.received(left("c")) || a.received(left("b")) {
		t.Error("a node that stood still must take nobody else for dead")
	}
}

func TestNameConflict(t *testing.T) {
	s := startServer(t)
	s.join("a")
	other := s.open("a", func(c *Config) { c.Instance = "another" })
	err := other.Join(t.Context(), "other:1")
	if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), "a:1") || !strings.Contains(err.Error(), "--name") {
		t.Errorf("a second node named a: %v", err)
	}
	if other.Self() != nil {
		t.Error("it is a member all the same")
	}
}

// TestRestartTakesOverName starts a node of the same data folder while the record of its former life is still there.
func TestRestartTakesOverName(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b")
	was := n[0].Self()
	n[0].crash()
	a := s.join("a")
	if a.Self().GetIncarnation() <= was.GetIncarnation() {
		t.Errorf("incarnation %d after %d", a.Self().GetIncarnation(), was.GetIncarnation())
	}
	n[1].until("the new a is known", func() bool { m, ok := n[1].MemberAt("a:1"); return ok && m.GetId() == a.Self().GetId() })
	n[1].until("the old a has left", func() bool {
		return n[1].received(func(c Change) bool { return len(c.Left) == 1 && c.Left[0].GetId() == was.GetId() })
	})
}

// TestJoinTakesNameOfDeadMember joins under the name of another instance that died with nobody there to notice.
func TestJoinTakesNameOfDeadMember(t *testing.T) {
	s := startServer(t)
	s.join("a").crash()
	other := s.open("a", func(c *Config) { c.Instance = "another" })
	if err := other.Join(t.Context(), "other:1"); err != nil {
		t.Fatal(err)
	}
}

func TestServerRestartKeepsMembers(t *testing.T) {
	for name, wipe := range map[string]bool{"store kept": false, "store lost": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			n := s.joinAll("a", "b", "c")
			ids := map[string]string{}
			for _, one := range n {
				ids[one.cfg.Name] = one.Self().GetId()
			}
			term, _, err := n[0].Acquire(t.Context(), "planner")
			if err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			s.restart(wipe)
			for _, one := range n {
				one.until("settled again", func() bool { return one.connectedSince(before) && one.canSuspect() && one.knows("a", "b", "c") })
			}
			// Who was forgotten would be missed by now; a fourth node sees what the bucket holds.
			d := s.join("d")
			d.until("all are there", func() bool { return d.knows("a", "b", "c", "d") })
			for _, m := range d.Live()[:3] {
				if m.GetId() != ids[m.GetName()] {
					t.Errorf("%s became %s", ids[m.GetName()], m.GetId())
				}
			}
			for _, one := range n {
				if one.received(func(c Change) bool { return len(c.Left) > 0 || c.Rejoined }) {
					t.Errorf("%s was told that somebody left", one.cfg.Name)
				}
			}
			again, ok, err := n[0].Acquire(t.Context(), "planner")
			if err != nil || !ok || again < term || (wipe && again == term) {
				t.Errorf("term %d after %d (%v, %v)", again, term, ok, err)
			}
		})
	}
}

// TestPartition cuts one node off from NATS for long enough to be taken for dead.
func TestPartition(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b")
	p := startProxy(t, s.listen)
	c := (&natsServer{t: t, listen: p.address()}).join("c")
	for _, one := range append(n, c) {
		one.until("all are known and settled", func() bool { return one.knows("a", "b", "c") && one.canSuspect() })
	}
	was := c.Self().GetId()
	p.cut(true)
	n[0].until("c is dead", func() bool { return n[0].knows("a", "b") })
	if !c.knows("a", "b", "c") {
		t.Error("who is cut off takes nobody for dead")
	}
	p.cut(false)
	n[0].until("c is back", func() bool { return n[0].knows("a", "b", "c") })
	c.until("it knows that it was fenced", func() bool { return c.received(func(c Change) bool { return c.Rejoined }) })
	if c.Self().GetId() == was {
		t.Error("it kept its id")
	}
	if c.received(left("a")) || c.received(left("b")) {
		t.Error("who was cut off takes others for dead")
	}
}

// TestAcquireWithoutNATS: who may have been deleted takes no lease.
func TestAcquireWithoutNATS(t *testing.T) {
	s := startServer(t)
	a := s.join("a")
	s.server.Stop()
	a.until("it is not certain to live", func() bool {
		a.Members.mu.Lock()
		defer a.Members.mu.Unlock()
		return !a.health.leaseValid(time.Now())
	})
	if _, _, err := a.Acquire(t.Context(), "planner"); !errors.Is(err, ErrNotMember) {
		t.Errorf("got %v", err)
	}
	if a.Self() == nil || !a.knows("a") {
		t.Error("a lost server must not end a membership")
	}
}
