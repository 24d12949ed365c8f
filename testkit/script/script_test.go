package script

import (
	"strings"
	"testing"
)

// TestPlay checks that effects are replaced and that comments stay.
func TestPlay(t *testing.T) {
	events := 0
	got := play("# two events\n\none a b\n  old\n  old\ntwo\n", func(event []string) []string {
		events++
		return event[1:]
	})
	if want := "# two events\n\none a b\n  a\n  b\ntwo\n"; got != want || events != 2 {
		t.Errorf("%d events, %s", events, strings.ReplaceAll(got, "\n", "|"))
	}
}
