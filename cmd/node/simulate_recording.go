package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"troupe/core/cost"
	"troupe/core/route"
	"troupe/internal/costfile"
	"troupe/recording"
	"troupe/simulate"
	"troupe/simulate/recorded"
	"troupe/simulate/scenario"
	"troupe/workload"
)

// recordingOptions are the options of troupe simulate for recordings.
type recordingOptions struct {
	Recording      string   `name:"recording" placeholder:"FILE" help:"${simulaterecording}"`
	Costs          []string `name:"costs" placeholder:"FILE" help:"${simulatecosts}"`
	CheckDecisions bool     `name:"check-decisions" help:"${simulatecheck}"`
}

// runRecording simulates a recording, and reports whether it did.
func (s simulateCommand) runRecording(c console) (done bool, err error) {
	switch {
	case s.Recording == "" && (s.CheckDecisions || len(s.Costs) > 0):
		return true, &usageError{errors.New("--costs and --check-decisions need --recording")}
	case s.Recording == "":
		return false, nil
	case s.Seeds > 1 || s.Seed != nil:
		return true, &usageError{errors.New("a recording has no seed; remove --seed and --seeds")}
	case s.Compare || len(s.Sweep) > 0 || s.Record != "" || s.Replay != "" || s.HTML != "" || len(s.Scenarios) > 1:
		return true, &usageError{errors.New("--recording takes one scenario at most, and none of --compare, --sweep, " +
			"--record, --replay and --html; leave them out")}
	}
	r, err := recording.Open(s.Recording)
	if err != nil {
		return true, &usageError{err}
	}
	for _, l := range r.Lost {
		fmt.Fprintf(c.log, "incomplete: at %.0f s, of %s, %d lines: %s\n", l.At, l.Node, l.Lines, l.Why)
	}
	if s.CheckDecisions {
		return true, checkDecisions(c.out, r)
	}
	return true, s.simulateRecording(c, r)
}

// maxDifferences is the number of differing decisions that are printed.
const maxDifferences = 10

// checkDecisions makes the recorded decisions again.
func checkDecisions(out io.Writer, r *recording.Recording) error {
	different := r.CheckDecisions(route.DefaultWeights)
	fmt.Fprintf(out, "%d of %d recorded decisions are the same.\n", len(r.Decisions)-len(different), len(r.Decisions))
	for i, d := range different {
		if i == maxDifferences {
			fmt.Fprintf(out, "and %d more\n", len(different)-i)
			break
		}
		fmt.Fprintln(out, d)
	}
	if len(different) > 0 {
		return fmt.Errorf("%d decisions are not those of the recording: the policy has changed since version %s",
			len(different), r.Header.Troupe)
	}
	return nil
}

// simulateRecording simulates the recorded requests and compares the results.
func (s simulateCommand) simulateRecording(c console, r *recording.Recording) error {
	cfg, err := s.configOf(r)
	if err != nil {
		return &usageError{err}
	}
	requests, refused := r.Workload()
	adapters := 0
	for i := range requests {
		if requests[i].Adapter != "" {
			requests[i].Adapter = ""
			adapters++
		}
	}
	cfg.StepByStep = s.OneByOne
	progress := startRuns(c.log, []time.Duration{cfg.Duration}, 1)
	run := progress.run(cfg.Duration)
	cfg.Progress = run.at
	result, err := simulate.Run(cfg, workload.Of(requests))
	run.done()
	progress.end()
	if err != nil {
		return fmt.Errorf("simulate %s: %w", s.Recording, err)
	}
	metrics := recorded.Compare(r, result)
	switch s.Output {
	case "json":
		out := json.NewEncoder(c.out)
		out.SetIndent("", "  ")
		return out.Encode(struct {
			Simulated bool              `json:"simulated"`
			Runs      []simulate.Result `json:"runs"`
			Compared  []recorded.Metric `json:"compared"`
		}{true, []simulate.Result{result}, metrics})
	case "csv":
		return simulate.PrintCSV(c.out, []simulate.Result{result})
	}
	if err := recorded.Print(c.out, cfg.Name, cfg.Duration, metrics); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "\n%d requests were simulated.", len(requests))
	if refused > 0 {
		fmt.Fprintf(c.out, " %d that were refused are left out.", refused)
	}
	if adapters > 0 {
		fmt.Fprintf(c.out, " %d with an adapter were simulated without it.", adapters)
	}
	fmt.Fprintln(c.out)
	return checkDecisions(c.out, r)
}

// configOf returns the configuration of the recorded cluster, or that of a scenario.
func (s simulateCommand) configOf(r *recording.Recording) (cfg simulate.Config, err error) {
	if len(s.Scenarios) > 0 {
		set, err := s.settings()
		if err != nil {
			return cfg, err
		}
		read, err := scenario.ReadCluster(s.Scenarios[0], factsOf, set...)
		if err != nil {
			return cfg, err
		}
		read.Config.Duration = recording.Duration(r.End.At)
		return read.Config, nil
	}
	var profiles []cost.Profile
	for _, path := range s.Costs {
		p, err := costfile.Read(path)
		if err != nil {
			return cfg, fmt.Errorf("--costs: %w", err)
		}
		profiles = append(profiles, p)
	}
	stored, err := recorded.Profiles(r)
	if err != nil {
		return cfg, err
	}
	return recorded.Config(r, filepath.Base(s.Recording), append(profiles, stored...))
}
