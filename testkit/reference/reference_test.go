package reference_test

import (
	"path/filepath"
	"slices"
	"testing"

	"troupe/testkit"
	"troupe/testkit/reference"
)

// TestReferenceAgainstGoldens checks the reference itself on the first tokens of two goldens.
func TestReferenceAgainstGoldens(t *testing.T) {
	m := reference.Load(t, testkit.Model())
	for _, g := range testkit.JSONLines[testkit.Golden](t, filepath.Join(testkit.Model(), "golden_greedy.jsonl"))[:2] {
		if got, _ := m.Greedy(g.PromptIDs, 6); !slices.Equal(got, g.OutputIDs[:6]) {
			t.Errorf("%q: got %v, want %v", g.Prompt, got, g.OutputIDs[:6])
		}
	}
}
