package planner

import (
	"testing"

	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

// TestReasonsOfRefusals checks that requests of a model without a place wait (NOT_READY) only if nothing is known
// that keeps it from serving.
func TestReasonsOfRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		unmet schedule.Unmet
		want  messages.Reason
	}{
		"nothing known": {schedule.Unmet{Missing: 1}, messages.Reason_REASON_NOT_READY},
		"device lost":   {schedule.Unmet{Missing: 1, Fault: "a"}, messages.Reason_REASON_QUARANTINED},
		"start failed": {schedule.Unmet{Missing: 1, Failure: "a", Fault: "a"},
			messages.Reason_REASON_LOAD_FAILED},
		"short of memory": {schedule.Unmet{Missing: 1, Failure: "a", Fault: "a", Shortage: &schedule.Shortage{}},
			messages.Reason_REASON_NO_MEMORY},
	} {
		if got := refusalOf(core.Refuse{Unmet: tc.unmet}, "").GetRefused().GetReason(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
