package main

import (
	"strings"
	"testing"
	"time"
)

// TestSplit checks that what a test has written is divided into its seeds, each with what it reaches.
func TestSplit(t *testing.T) {
	out := "=== RUN   TestPark\nmutant reached 3\nmutant reached 5\n" +
		"    park_test.go:12: TestPark seed 7 trace 0123456789abcdef\nmutant reached 5\n" +
		"    park_test.go:12: TestPark seed 9 trace fedcba9876543210\n--- PASS: TestPark (1.00s)\n"
	parts := split("TestPark", out, time.Second)
	if len(parts) != 2 || parts[0].Seed != "7" || parts[1].Seed != "9" || parts[0].Runs != 1 ||
		!parts[0].Reach[3] || !parts[0].Reach[5] || parts[1].Reach[3] || !parts[1].Reach[5] ||
		parts[1].Traces["TestPark seed 9"] != "fedcba9876543210" {
		t.Errorf("parts: %+v", parts)
	}
	if got := strings.Join(parts[1].arguments(), " "); !strings.Contains(got, "-pick=9") {
		t.Errorf("the second part runs with %s", got)
	}
	out = "mutant reached 1\n    quiet_test.go:34: quiet seed 1 trace 0123456789abcdef\nmutant reached 2\n" +
		"    quiet_test.go:34: quiet seed 2 trace 0123456789abcdef\n"
	parts = split("TestQuiet", out, time.Second)
	if len(parts) != 1 || parts[0].Runs != 2 || !parts[0].Reach[1] || !parts[0].Reach[2] || len(parts[0].Traces) != 2 {
		t.Errorf("an entire test: %+v", parts)
	}
}

// TestInOrder checks that changes are tried in a few seeds of each kind first.
func TestInOrder(t *testing.T) {
	var all []part
	for _, test := range []string{"TestPark", "TestSeeds"} {
		for _, seed := range strings.Fields("1 2 3 4 5 6 7 8 9 10") {
			all = append(all, part{Test: test, Seed: seed})
		}
	}
	all = inOrder(append(all, part{Test: "TestQuiet"}))
	var got []string
	for _, p := range all[:13] {
		got = append(got, p.String())
	}
	want := "TestSeeds 1,TestSeeds 2,TestSeeds 3,TestSeeds 4,TestSeeds 5,TestSeeds 6,TestSeeds 7,TestSeeds 8," +
		"TestQuiet,TestPark 1,TestSeeds 9,TestSeeds 10,TestPark 2"
	if strings.Join(got, ",") != want {
		t.Errorf("order: %s, want %s", strings.Join(got, ","), want)
	}
}

// TestTruncated checks that the report tells a change whose time was up from one that no run finds.
func TestTruncated(t *testing.T) {
	for _, tc := range []struct {
		o    outcome
		want string
	}{
		{outcome{reached: true, course: course{By: timeIsUp, Tried: 7}}, "no run differs (time is up after 7 runs)"},
		{
			outcome{reached: true, course: course{By: timeIsUp, Tried: 7, Differs: true}},
			"runs differ (time is up after 7 runs)",
		},
		{outcome{reached: true}, "no run differs"},
		{outcome{}, "not reached"},
	} {
		if got := tc.o.differs(); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.o.course, got, tc.want)
		}
	}
}

// TestReason checks which line of a failed test is its reason.
func TestReason(t *testing.T) {
	ran := "    a_test.go:9: seed 1 trace 0123456789abcdef\n"
	for _, tc := range []struct {
		out  string
		late bool
		want string
	}{
		{ran + "    a_test.go:9: seed 1: not at rest\n--- FAIL: TestA (0.1s)\n", false, "seed 1: not at rest"},
		{ran, true, "the run never ends"},
		{ran + "panic: no row\n", false, "panic: no row"},
		{ran + "    a_test.go:9: none was late\n--- FAIL: TestA (0.1s)\n", false, "none was late"},
	} {
		if got, err := reason(tc.out, tc.late); got != tc.want || err != nil {
			t.Errorf("reason %q, %v, want %q", got, err, tc.want)
		}
	}
	if got, err := reason(ran, false); err == nil {
		t.Errorf("without a reason: %q", got)
	}
}
