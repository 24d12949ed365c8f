package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"troupe/simulate"
	"troupe/simulate/scenario"
)

// checkReplay refuses what a record has itself.
func (s simulateCommand) checkReplay() error {
	if len(s.Scenarios) > 0 {
		return fmt.Errorf("--replay runs the scenario that is in the record; leave out %s", s.Scenarios[0])
	}
	if s.Seed != nil || s.Seeds != 1 || len(s.Set)+len(s.Sweep) > 0 || s.Compare || s.HTML != "" || s.Series ||
		s.Record != "" || s.Output != "table" {
		return errors.New("--replay only compares decisions, with the seed of the record; leave out all other " +
			"options but --one-by-one")
	}
	return nil
}

// replay makes the run of a record again, and compares its decisions.
func (s simulateCommand) replay(c console) error {
	f, err := os.Open(s.Replay)
	if err != nil {
		return &usageError{fmt.Errorf("--replay: %w", err)}
	}
	defer f.Close()
	compared, err := simulate.NewReplay(f)
	if err != nil {
		return &usageError{fmt.Errorf("--replay %s: %w", s.Replay, err)}
	}
	header := compared.Header
	note := ""
	if header.Version != build() {
		note = fmt.Sprintf("\nThe record is of troupe %s, and this is %s: their decisions may differ.", header.Version,
			build())
	}
	read, err := scenario.Again(header.Origin, factsOf)
	if err != nil {
		return fmt.Errorf("--replay %s: %w%s", s.Replay, err, note)
	}
	requests, err := read.Requests(header.Seed)
	if err != nil {
		return fmt.Errorf("--replay %s: %w", s.Replay, err)
	}
	cfg := read.Config
	cfg.Seed, cfg.StepByStep, cfg.Origin, cfg.Record = header.Seed, s.OneByOne, header.Origin, compared
	progress := startRuns(c.log, []time.Duration{cfg.Duration}, 1)
	cfg.Progress = progress.run(cfg.Duration).at
	result, err := simulate.Run(cfg, requests)
	if err == nil {
		err = compared.Close()
	}
	progress.end()
	if err != nil {
		return fmt.Errorf("--replay %s: %w%s", s.Replay, err, note)
	}
	_, err = fmt.Fprintf(c.out, "%s, seed %d, %v: all %d lines of %s are the same again%s\n", result.Scenario,
		result.Seed, time.Duration(result.Seconds*1e9).Round(time.Second), compared.Decisions(), s.Replay, note)
	return err
}
