package schedule_test

import (
	"testing"

	"troupe/core/schedule"
)

// TestJudge checks the verdict for each pair of wanted and found revisions.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name        string
		want, found schedule.Revision
		verdict     schedule.FileVerdict
		same        bool
	}{
		{"the first of a deploy", schedule.Revision{"", 2}, schedule.Revision{"x", 2}, schedule.Record, true},
		{"still of the deploy before", schedule.Revision{"", 2}, schedule.Revision{"x", 1}, schedule.Ignore, false},
		{"as recorded", schedule.Revision{"x", 2}, schedule.Revision{"x", 2}, schedule.Confirm, true},
		{
			"the same files, of the deploy before", schedule.Revision{"x", 2}, schedule.Revision{"x", 1},
			schedule.Confirm, true,
		},
		{"other files", schedule.Revision{"x", 2}, schedule.Revision{"y", 2}, schedule.Reject, false},
		{
			"other files, of the deploy before: it serves until it is replaced", schedule.Revision{"x", 2},
			schedule.Revision{"y", 1}, schedule.Ignore, false,
		},
		{"it loads", schedule.Revision{"x", 2}, schedule.Revision{"", 2}, schedule.Ignore, true},
		{"it loads for the deploy before", schedule.Revision{"x", 2}, schedule.Revision{"", 1}, schedule.Ignore, false},
		{"stored before there were digests", schedule.Revision{}, schedule.Revision{}, schedule.Ignore, true},
	} {
		if v, same := schedule.Judge(tc.want, tc.found), tc.want.Same(tc.found); v != tc.verdict || same != tc.same {
			t.Errorf("%s: %d, %v", tc.name, v, same)
		}
	}
}
