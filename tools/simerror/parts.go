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

// requestsRecorded is the recording of a part, in its folder.
const requestsRecorded = "requests.rec.gz"

// recordTo records requests. Requests that failed are an error.
func (c *cluster) recordTo(ctx context.Context, dir string, load workload.Source) error {
	requests, err := workload.Collect(load)
	if err != nil {
		return err
	}
	say("recording %s: %d requests", filepath.Base(dir), len(requests))
	return c.record(ctx, filepath.Join(dir, requestsRecorded), requests)
}

// recordingOf returns the recording of a part, which record makes unless it is there from before.
func (m *measurement) recordingOf(dir string, record func() error) (*recording.Recording, error) {
	if m.from == "" {
		if err := record(); err != nil {
			return nil, err
		}
	}
	return recording.Open(filepath.Join(dir, requestsRecorded))
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
