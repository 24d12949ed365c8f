package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"
)

// TestModesAreScenarios checks that each mode has results of its own, and that the scenario takes its settings.
func TestModesAreScenarios(t *testing.T) {
	s := &study{scenarios: "../../examples/scenarios"}
	names := make(map[string]bool)
	for _, m := range allModes() {
		if names[m.String()] {
			t.Errorf("two modes are called %q", m)
		}
		names[m.String()] = true
		for _, when := range allPeaks {
			set := append(day{when, 1}.demand(), m.set(when)...)
			sc, err := s.read(dayScenario, set...)
			if err != nil {
				t.Fatalf("%s: %v", m, err)
			}
			for i, d := range sc.Config.Deployments {
				shares, waits := m.Shared && i > 0, m.Later && i == 3
				if most := m.unbounded && i > 0 && !waits; (d.MaxReplicas == 16) != most ||
					(d.MinReplicas == 0) != (m.fromZero || i == 3) || (len(d.Devices) > 0) != shares ||
					(d.MaxReplicas == 1) != waits {
					t.Errorf("%s: %s has %d to %d replicas on %q", m, d.Name, d.MinReplicas, d.MaxReplicas, d.Devices)
				}
			}
		}
	}
}

// TestKnownResultsStay checks that only results that are missing are computed, and with renew those of other versions.
func TestKnownResultsStay(t *testing.T) {
	s := &study{versions: map[string]string{dayScenario: "new"}}
	s.results.Runs = map[string]run{"x/1": {Version: "old"}, "x/2": {Version: "new"}}
	for _, c := range []struct {
		renew bool
		only  string
		want  int
	}{{false, "", 1}, {true, "", 2}, {true, "x/1", 1}, {true, "/[13]$", 2}} {
		s.jobs, s.renew, s.only = nil, c.renew, regexp.MustCompile(c.only)
		for seed := 1; seed <= 3; seed++ {
			s.simulate("x", dayScenario, seed)
		}
		if len(s.jobs) != c.want {
			t.Errorf("with renew %v, %d jobs are planned, want %d", c.renew, len(s.jobs), c.want)
		}
	}
}

// TestWorkStopsAfterAnError checks that all jobs are done, and none begins after an error.
func TestWorkStopsAfterAnError(t *testing.T) {
	var did atomic.Int32
	s := &study{workers: 2}
	add := func(n int, err error) {
		for range n {
			s.jobs = append(s.jobs, job{fmt.Sprint(len(s.jobs)), func() error { did.Add(1); return err }})
		}
	}
	add(20, nil)
	if err := s.work("test"); err != nil || did.Load() != 20 {
		t.Errorf("%d of 20 jobs were done: %v", did.Load(), err)
	}
	did.Store(0)
	wrong := errors.New("wrong")
	s.workers = 1
	add(1, wrong)
	add(20, nil)
	// The next job may have been handed over already.
	if err := s.work("test"); !errors.Is(err, wrong) || did.Load() > 2 {
		t.Errorf("%d jobs were done: %v", did.Load(), err)
	}
}

// TestCommentsAreNoVersion checks that the code of a file counts for the version, and its comments do not.
func TestCommentsAreNoVersion(t *testing.T) {
	tokens := func(text string) string {
		var b bytes.Buffer
		writeTokens(&b, []byte(text))
		return b.String()
	}
	plain := tokens("package p\n\nconst a = 1\n")
	if got := tokens("// Package p.\npackage p\n\nconst a = 1 // one\n"); got != plain {
		t.Errorf("with comments: %s, without: %s", got, plain)
	}
	if got := tokens("package p\n\nconst a = 2\n"); got == plain {
		t.Errorf("the same tokens with another value: %s", got)
	}
}
