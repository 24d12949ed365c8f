package backend

import (
	"slices"
	"strings"
	"testing"
)

// TestParseSpec checks which specs are accepted, and what their backends can do.
func TestParseSpec(t *testing.T) {
	for _, tc := range []struct {
		kind    string
		without []string
		fault   string // a part of the error; empty: none
		text    string
	}{
		{"", nil, "", "native"},
		{"native", nil, "", "native"},
		{"simulated", nil, "", "simulated"},
		{"simulated", []string{"standby", "kv_events"}, "", "simulated without standby, kv_events"},
		{"simulated", []string{"speed"}, `engine.without has "speed"; the capabilities are token_ids, resume`, ""},
		{"native", []string{"seeds"}, "the native engine has all capabilities", ""},
		{"vllm", nil, `engine.kind is "vllm"; use native or simulated`, ""},
	} {
		s, err := ParseSpec(tc.kind, tc.without)
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s, %v: %v, want %q", tc.kind, tc.without, err, tc.fault)
		}
		if err == nil && s.String() != tc.text {
			t.Errorf("%s, %v: %s, want %s", tc.kind, tc.without, s, tc.text)
		}
		if err == nil && SpecOf(tc.kind, tc.without) != s {
			t.Errorf("%s, %v: SpecOf gives %v", tc.kind, tc.without, SpecOf(tc.kind, tc.without))
		}
	}
}

// TestCapabilities checks the sets of the kinds, and that names survive a way through messages.
func TestCapabilities(t *testing.T) {
	if s := (Spec{}); s.Capabilities() != All || s.String() != "native" {
		t.Errorf("the zero spec: %s with %v", s, s.Capabilities().Names())
	}
	s := SpecOf("simulated", []string{"resume", "of a later version"}).Capabilities()
	for c := range capabilities {
		lacks := slices.Contains([]Capability{Resume, Logprobs, Adapters, KVMigration, KVTiers}, c)
		if s.Has(c) == lacks {
			t.Errorf("simulated without resume: %s is %v", c, s.Has(c))
		}
	}
	if got := SetOf(append(s.Names(), "of a later version")); got != s {
		t.Errorf("%v, want %v", got.Names(), s.Names())
	}
}
