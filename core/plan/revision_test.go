package plan_test

import (
	"testing"

	"troupe/core/plan"
)

// TestJudge: what becomes of a replica, by what is wanted and what it has found.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name        string
		want, found plan.Revision
		verdict     plan.FileVerdict
		same        bool
	}{
		{"the first of a deploy", plan.Revision{"", 2}, plan.Revision{"x", 2}, plan.Record, true},
		{"still of the deploy before", plan.Revision{"", 2}, plan.Revision{"x", 1}, plan.Ignore, false},
		{"as recorded", plan.Revision{"x", 2}, plan.Revision{"x", 2}, plan.Confirm, true},
		{"the same files, of the deploy before", plan.Revision{"x", 2}, plan.Revision{"x", 1}, plan.Confirm, true},
		{"other files", plan.Revision{"x", 2}, plan.Revision{"y", 2}, plan.Reject, false},
		{"other files, of the deploy before: it serves until it is replaced", plan.Revision{"x", 2}, plan.Revision{"y", 1},
			plan.Ignore, false},
		{"it loads", plan.Revision{"x", 2}, plan.Revision{"", 2}, plan.Ignore, true},
		{"it loads for the deploy before", plan.Revision{"x", 2}, plan.Revision{"", 1}, plan.Ignore, false},
		{"stored before there were digests", plan.Revision{}, plan.Revision{}, plan.Ignore, true},
	} {
		if v, same := plan.Judge(tc.want, tc.found), tc.want.Same(tc.found); v != tc.verdict || same != tc.same {
			t.Errorf("%s: %d, %v", tc.name, v, same)
		}
	}
}
