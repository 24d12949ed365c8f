package top

import (
	"testing"

	"troupe/messages"
)

// TestWaitingRequestsAreShown checks that the row of a deployment has the requests that wait for it.
func TestWaitingRequestsAreShown(t *testing.T) {
	s := Sample{Models: []*messages.DeploymentStatus{{WaitingToWake: 12}, {}}}
	models := modelSection(s)
	for i, want := range []float64{12, 0} {
		if got := models.rows[i].cells[3]; models.columns[3].name != "WAIT" || got != number(want) {
			t.Errorf("row %d: %s is %+v, want %v", i, models.columns[3].name, got, want)
		}
	}
}
