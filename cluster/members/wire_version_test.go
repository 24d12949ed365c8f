package members

import (
	"errors"
	"strings"
	"testing"
	"time"

	"troupe/messages"
)

// TestJoinRefusesOtherWireVersion checks that a node does not join while a live member has another
// wire version, and joins once that member has left or is dead.
func TestJoinRefusesOtherWireVersion(t *testing.T) {
	s := startServer(t)
	old := s.open("old", func(c *Config) { c.WireVersion = 1 })
	if err := old.join(t); err != nil {
		t.Fatal(err)
	}
	next := s.open("next", nil)
	next.until("the old node is known", func() bool { return next.knows("old") })
	err := next.join(t)
	if !errors.Is(err, ErrWireVersion) || !strings.Contains(err.Error(), "node old has wire version 1") ||
		!strings.Contains(err.Error(), "stop all nodes") || next.Self() != nil {
		t.Fatalf("Join beside wire version 1: %v", err)
	}
	if err := old.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.until("the old node has left", func() bool { return len(next.Live()) == 0 })
	if err := next.join(t); err != nil || next.Self().GetWireVersion() != messages.WireVersion {
		t.Errorf("Join alone: %v, %v", err, next.Self())
	}
}

// TestDeadMemberOfOtherWireVersion checks that the record of a node that crashed does not keep nodes
// of the next version out.
func TestDeadMemberOfOtherWireVersion(t *testing.T) {
	s := startServer(t)
	old := s.open("old", func(c *Config) { c.WireVersion = 1 })
	if err := old.join(t); err != nil {
		t.Fatal(err)
	}
	old.crash()
	next := s.open("next", nil)
	next.until("the record is known", func() bool { return next.knows("old") })
	if err := next.join(t); err != nil {
		t.Error(err)
	}
}

// TestIncarnationsGrow checks that a new incarnation exceeds the last one after the clock was set
// back.
func TestIncarnationsGrow(t *testing.T) {
	later := uint64(time.Now().Add(time.Hour).UnixMilli())
	m := &Members{cfg: Config{Name: "a"}.withDefaults(), incarnation: later}
	if first, second := m.newRecord(0), m.newRecord(0); first.GetIncarnation() != later+1 ||
		second.GetIncarnation() != later+2 {
		t.Errorf("incarnations %d and %d after %d", first.GetIncarnation(), second.GetIncarnation(), later)
	}
}
