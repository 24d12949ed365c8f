package loadsource

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestSuspects checks that a suspicion holds for one source, content and version.
func TestSuspects(t *testing.T) {
	var s Suspects
	if _, suspected := s.Why("m", "node b", "1"); suspected {
		t.Error("nothing is suspected")
	}
	s.Suspect("m", "node b", "1", "other tokens")
	for _, c := range []struct {
		content, source, version string
		want                     bool
	}{
		{"m", "node b", "1", true}, {"m", "node b", "2", false}, {"n", "node b", "1", false},
		{"m", "node c", "1", false},
	} {
		why, suspected := s.Why(c.content, c.source, c.version)
		if suspected != c.want || suspected && why != "other tokens" {
			t.Errorf("%+v: %v, %q", c, suspected, why)
		}
	}
	s.Suspect("m", "node b", "2", "other tokens again")
	if _, suspected := s.Why("m", "node b", "1"); suspected {
		t.Error("an earlier version is still suspected")
	}
}

// TestSuspectsAreBounded checks that the oldest suspicion is forgotten, and no other one.
func TestSuspectsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Suspects
		n := rapid.IntRange(1, 2*maxSuspects).Draw(t, "suspects")
		for i := range n {
			s.Suspect("m", fmt.Sprint("node ", i), "1", "why")
			s.Suspect("m", fmt.Sprint("node ", i), "1", "why again")
		}
		for i := range n {
			if _, suspected := s.Why("m", fmt.Sprint("node ", i), "1"); suspected != (i >= n-maxSuspects) {
				t.Fatalf("suspect %d of %d: %v", i, n, suspected)
			}
		}
	})
}
