package deployment_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// alone plays three replicas on host a, and b that has just come back with nothing.
func alone(t *testing.T) *stage {
	s := play(t, "a", "b")
	s.leave("b")
	s.start(1)
	s.apply(3)
	s.has("a", "m-0", "m-1", "m-2")
	s.join("b", "b.2")
	return s
}

// TestRebalance: a node that comes back gets its share, once nothing has changed for a while. The substitute serves before the
// replica that moves is drained, and its sequences move; and that is all.
func TestRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.pass(9 * time.Second)
		s.has("a", "m-0", "m-1", "m-2") // too early
		var moved *testkit.Peer
		s.hosts["a"].with(func(a *host) { moved = a.replicas["m-2"] })
		s.pass(10 * time.Second)
		s.has("a", "m-0", "m-1")
		s.has("b", "m-3")
		if s.told().GetState() != ready {
			t.Errorf("%v", s.told())
		}
		if m := testkit.Got[*messages.MigrateSequences](moved); len(m) == 0 || m[0].GetTerm() != 1 || m[0].GetCause() != "m-2 leaves: it moves to a better GPU, and its substitute serves" {
			t.Errorf("the sequences were not moved: %v", m)
		}
		s.pass(10 * time.Minute)
		s.has("a", "m-0", "m-1")
		s.has("b", "m-3")
	})
}

// TestRebalanceOntoOthers: others give way to what moves, as far as it needs no more than it holds.
func TestRebalanceOntoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.hosts["b"].with(func(b *host) { b.others = b.memory - needed })
		s.pass(20 * time.Second)
		s.has("a", "m-0", "m-1")
		s.has("b", "m-3")
	})
}

// TestNotRebalanced: what is better placed elsewhere stays where it can not be moved.
func TestNotRebalanced(t *testing.T) {
	for name, but := range map[string]func(*stage){
		"no room": func(s *stage) { s.hosts["b"].with(func(b *host) { b.others = b.memory - needed + 1 }) },
		"drained": func(s *stage) {
			s.change(func(m *messages.MembersChanged) { m.Draining = []string{"b"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := alone(t)
				but(s)
				s.pass(10 * time.Minute)
				s.has("a", "m-0", "m-1", "m-2")
				if n := s.hosts["b"].begun(); n != 0 {
					t.Errorf("%d were started on b", n)
				}
				if n := len(testkit.Got[*messages.GetGpu](s.hosts["b"].gpu)); n > 61 {
					t.Errorf("b's GPU was asked %d times in ten minutes", n)
				}
			})
		})
	}
}

// TestMoveFails: where the substitute does not come up, the replica stays, and it is not tried again and again.
func TestMoveFails(t *testing.T) {
	for name, ails := range map[string]func(*host){"loading": func(h *host) { h.bad = true }, "running": func(h *host) { h.frail = true }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := alone(t)
				s.hosts["b"].with(ails)
				s.pass(4 * time.Minute)
				s.has("a", "m-0", "m-1", "m-2")
				s.has("b")
				if n := s.hosts["b"].begun(); n != 1 {
					t.Errorf("%d were started on b", n)
				}
				if s.told().GetState() != ready {
					t.Errorf("%v", s.told())
				}
			})
		})
	}
}

// TestMoveGivesWay: fewer replicas are asked for while one moves, or where it moves to is lost: in the end there are those asked for.
func TestMoveGivesWay(t *testing.T) {
	for name, tc := range map[string]struct {
		turn func(*stage)
		a, b []string
	}{
		"scaled": {func(s *stage) { s.apply(2) }, []string{"m-0"}, []string{"m-3"}},
		"lost":   {func(s *stage) { s.leave("b") }, []string{"m-0", "m-1", "m-2"}, []string{"m-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := alone(t)
				for s.hosts["b"].begun() == 0 {
					s.pass(time.Millisecond)
				}
				tc.turn(s)
				s.pass(time.Minute)
				if s.told().GetState() != ready {
					t.Errorf("%v", s.told())
				}
				s.has("a", tc.a...)
				s.has("b", tc.b...)
			})
		})
	}
}

// begun is how many replicas were started.
func (h *host) begun() (n int) {
	h.with(func(h *host) { n = h.starts })
	return n
}
