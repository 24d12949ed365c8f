package main

import (
	"bytes"
	"testing"
	"time"
)

// TestSimulationProgress shows two runs of different lengths. What follows the duration of a run counts
// nothing.
func TestSimulationProgress(t *testing.T) {
	p := startRuns(nil, []time.Duration{time.Hour, 3 * time.Hour}, 1)
	var shown bytes.Buffer
	p.out = &shown
	a, b := p.run(time.Hour), p.run(3*time.Hour)
	a.at(30 * time.Minute)
	b.at(90 * time.Minute)
	b.at(90 * time.Minute)
	a.at(2 * time.Hour)
	a.done()
	b.done()
	p.end()
	want := ""
	for _, text := range []string{"simulating: 12 %, 0 of 2 runs", "simulating: 50 %, 0 of 2 runs",
		"simulating: 62 %, 0 of 2 runs", "simulating: 62 %, 1 of 2 runs", "simulating: 100 %, 1 of 2 runs",
		"simulating: 100 %, 2 of 2 runs", ""} {
		want += "\r\x1b[K" + text
	}
	if shown.String() != want {
		t.Errorf("%q\nwant %q", shown.String(), want)
	}
}
