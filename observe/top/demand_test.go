package top

import (
	"testing"

	"troupe/messages"
)

// TestDemandIsShown checks that the row of a deployment has its demand, and that unknown figures are empty.
func TestDemandIsShown(t *testing.T) {
	s := Sample{Models: []*messages.DeploymentStatus{
		{Demand: &messages.Demand{
			ArrivalsPerSecond: 2.25, Ttft: &messages.Quantiles{P99: 0.1834}, Tpot: &messages.Quantiles{P99: 0.00771},
		}},
		{Demand: &messages.Demand{}},
		{},
	}}
	for i, want := range [][3]string{{"2.2", "183ms", "7.71ms"}, {"0.0", "", ""}, {"", "", ""}} {
		cells := modelSection(s).rows[i].cells
		if got := [3]string{cells[4].text, cells[5].text, cells[6].text}; got != want {
			t.Errorf("row %d: %q, want %q", i, got, want)
		}
	}
}
