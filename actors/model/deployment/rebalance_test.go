package deployment_test

import (
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

// playUnbalanced starts three replicas on host a, and then lets an empty host b rejoin.
func playUnbalanced(t *testing.T) *stage {
	s := play(t, "a", "b")
	s.leave("b")
	s.start(1)
	s.apply(3)
	s.expectReplicas("a", "m-0", "m-1", "m-2")
	s.join("b", "b.2")
	return s
}

// TestRejoinedNodeGetsShare checks that a node that comes back gets a replica after nothing has
// changed for a while. The substitute serves before the moved replica is drained, its sequences
// migrate, and nothing else moves.
func TestRejoinedNodeGetsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := playUnbalanced(t)
		s.pass(9 * time.Second)
		s.expectReplicas("a", "m-0", "m-1", "m-2") // not stable for long enough
		var moved *testkit.Peer
		s.hosts["a"].with(func(a *host) { moved = a.replicas["m-2"] })
		s.pass(10 * time.Second)
		s.expectReplicas("a", "m-0", "m-1")
		s.expectReplicas("b", "m-3")
		if s.lastStatus().GetState() != ready {
			t.Errorf("%v", s.lastStatus())
		}
		if m := testkit.Got[*messages.MigrateSequences](moved); len(m) == 0 || m[0].GetTerm() != 1 ||
			m[0].GetCause() != "m-2 leaves: it moves to a better GPU, and its substitute serves" {
			t.Errorf("the sequences did not migrate: %v", m)
		}
		s.pass(10 * time.Minute)
		s.expectReplicas("a", "m-0", "m-1")
		s.expectReplicas("b", "m-3")
	})
}

// TestRebalanceOntoSharedGPU checks that a replica moves onto a GPU that others use if its current
// memory fits there.
func TestRebalanceOntoSharedGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := playUnbalanced(t)
		s.hosts["b"].with(func(b *host) { b.others = b.memory - needed })
		s.pass(20 * time.Second)
		s.expectReplicas("a", "m-0", "m-1")
		s.expectReplicas("b", "m-3")
	})
}

// TestNoRebalanceWithoutRoom checks that a replica stays if the better place has no room or is
// draining.
func TestNoRebalanceWithoutRoom(t *testing.T) {
	for name, obstruct := range map[string]func(*stage){
		"no room": func(s *stage) { s.hosts["b"].with(func(b *host) { b.others = b.memory - needed + 1 }) },
		"drained": func(s *stage) {
			s.change(func(m *messages.MembersChanged) { m.Draining = []string{"b"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := playUnbalanced(t)
				obstruct(s)
				s.pass(10 * time.Minute)
				s.expectReplicas("a", "m-0", "m-1", "m-2")
				if n := s.hosts["b"].startCount(); n != 0 {
					t.Errorf("%d replicas started on b", n)
				}
				if n := len(testkit.Got[*messages.GetGpu](s.hosts["b"].gpu)); n > 61 {
					t.Errorf("b's GPU was queried %d times in ten minutes", n)
				}
			})
		})
	}
}

// TestFailedMoveBacksOff checks that a replica stays if its substitute fails, and that the move is
// not retried soon.
func TestFailedMoveBacksOff(t *testing.T) {
	for name, fault := range map[string]func(*host){"loading": func(h *host) { h.failsToLoad = true },
		"running": func(h *host) { h.crashing = true }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := playUnbalanced(t)
				s.hosts["b"].with(fault)
				s.pass(4 * time.Minute)
				s.expectReplicas("a", "m-0", "m-1", "m-2")
				s.expectReplicas("b")
				if n := s.hosts["b"].startCount(); n != 1 {
					t.Errorf("%d replicas started on b", n)
				}
				if s.lastStatus().GetState() != ready {
					t.Errorf("%v", s.lastStatus())
				}
			})
		})
	}
}

// TestChangeDuringMove scales down or loses the target node during a move, and expects the
// requested number of replicas in the end.
func TestChangeDuringMove(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*stage)
		a, b   []string
	}{
		"scaled": {func(s *stage) { s.apply(2) }, []string{"m-0"}, []string{"m-3"}},
		"lost":   {func(s *stage) { s.leave("b") }, []string{"m-0", "m-1", "m-2"}, []string{"m-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := playUnbalanced(t)
				for s.hosts["b"].startCount() == 0 {
					s.pass(time.Millisecond)
				}
				tc.change(s)
				s.pass(time.Minute)
				if s.lastStatus().GetState() != ready {
					t.Errorf("%v", s.lastStatus())
				}
				s.expectReplicas("a", tc.a...)
				s.expectReplicas("b", tc.b...)
			})
		})
	}
}

// startCount returns the number of replicas started on the host.
func (h *host) startCount() (n int) {
	h.with(func(h *host) { n = h.starts })
	return n
}
