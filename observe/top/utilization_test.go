package top

import (
	"testing"

	"troupe/messages"
)

// TestUtilizationIsShown checks that a GPU is shown with its utilization, with the share of its time if only that is
// known, and without a figure if nothing is known.
func TestUtilizationIsShown(t *testing.T) {
	used := 0.25
	s := Sample{Nodes: []*messages.NodeStatus{{Member: &messages.Member{Name: "a"}, Gpus: []*messages.GpuStatus{
		{Utilization: &messages.GpuUtilization{TimeShare: 0.5, Utilization: &used}},
		{Utilization: &messages.GpuUtilization{TimeShare: 0.5}},
		{},
	}}}}
	rows := gpuSection(s).rows
	for i, want := range []string{"25%", "≤50%", ""} {
		if got := rows[i].cells[3].text; got != want {
			t.Errorf("row %d: %q, want %q", i, got, want)
		}
	}
}
