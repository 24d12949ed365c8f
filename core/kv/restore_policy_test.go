package kv

import (
	"testing"
)

func TestParseRestorePolicy(t *testing.T) {
	for _, want := range RestorePolicies() {
		if got, err := ParseRestorePolicy(string(want)); err != nil || got != want {
			t.Errorf("%q: got %q, %v", want, got, err)
		}
	}
	for _, name := range []string{"", "never"} {
		if got, err := ParseRestorePolicy(name); err == nil {
			t.Errorf("%q: got %q, want an error", name, got)
		}
	}
}
