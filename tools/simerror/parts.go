package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"troupe/core/cost"
	"troupe/recording"
	"troupe/simulate"
	"troupe/simulate/recorded"
	"troupe/workload"
)

// section is what one more part of a cluster was compared in.
type section struct {
	title, about string
	metrics      []recorded.Metric
}

// part compares something else than steps.
type part struct {
	name string
	run  func(m *measurement, ctx context.Context, binary, dir string) (section, error)
}

// steps is the name of the comparison of workloads A and B.
const steps = "steps"

var parts = []part{{"adapters", (*measurement).adapters}, {"wakes", (*measurement).wakes},
	{"simulated", (*measurement).simulated}}

func partNames() string {
	all := []string{steps}
	for _, p := range parts {
		all = append(all, p.name)
	}
	return strings.Join(all, ",")
}

// compareParts compares the chosen parts.
func (m *measurement) compareParts(ctx context.Context, binary string) error {
	for _, p := range parts {
		if !m.chosen[p.name] {
			continue
		}
		s, err := p.run(m, ctx, binary, filepath.Join(m.dir, p.name))
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		m.sections = append(m.sections, s)
	}
	return nil
}

// recordTo records requests and reads the recording. Requests that failed are an error.
func (c *cluster) recordTo(ctx context.Context, dir string, load workload.Source) (*recording.Recording, error) {
	requests, err := workload.Collect(load)
	if err != nil {
		return nil, err
	}
	say("recording %s: %d requests", filepath.Base(dir), len(requests))
	path := filepath.Join(dir, "requests.rec.gz")
	if err := c.record(ctx, path, requests); err != nil {
		return nil, err
	}
	return recording.Open(path)
}

// simulateWith simulates a recording with replicas at their places, after a change of the configuration.
func simulateWith(r *recording.Recording, profiles []cost.Profile, change func(*simulate.Config)) (
	result simulate.Result, err error,
) {
	requests, refused := r.Workload()
	if refused > 0 {
		return result, fmt.Errorf("%d requests were refused", refused)
	}
	cfg, err := recorded.Config(r, "simerror", profiles)
	if err != nil {
		return result, err
	}
	if change != nil {
		change(&cfg)
	}
	return simulate.Run(cfg, workload.Of(requests))
}

// about returns how many requests were sent.
func about(r *recording.Recording, format string, args ...any) string {
	return fmt.Sprintf("%d requests in %v. ", len(r.Requests), recording.Duration(r.End.At).Round(time.Second)) +
		fmt.Sprintf(format, args...)
}
