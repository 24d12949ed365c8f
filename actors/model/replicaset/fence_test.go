package replicaset_test

import (
	"testing"

	"troupe/actors/model/replicaset"
	"troupe/messages"
)

// TestFenceRefusesStaleTerms checks that a fence accepts the highest term of a deployment and later
// ones, and refuses earlier ones, separately for each deployment.
func TestFenceRefusesStaleTerms(t *testing.T) {
	var f replicaset.Fence
	for _, step := range []struct {
		model string
		term  uint64
		stale bool
	}{{"a", 3, false}, {"a", 3, false}, {"a", 2, true}, {"b", 1, false}, {"a", 5, false}, {"a", 4, true}} {
		refused := f.Check(step.model, step.term)
		if (refused != nil) != step.stale {
			t.Errorf("term %d of %s: %v, want stale %t", step.term, step.model, refused, step.stale)
		}
		if refused != nil && refused.GetReason() != messages.Reason_REASON_STALE_TERM {
			t.Errorf("term %d of %s: reason %v", step.term, step.model, refused.GetReason())
		}
		if refused != nil && refused.GetTerm() <= step.term {
			t.Errorf("term %d of %s was refused because of term %d", step.term, step.model, refused.GetTerm())
		}
	}
}
