package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"troupe/core/cost"
	"troupe/internal/costfile"
	"troupe/observe/top"
	"troupe/observe/whatif"
)

// whatIfOptions are the options of troupe plan for simulations.
type whatIfOptions struct {
	WhatIf bool          `name:"what-if" help:"Simulate what the planner would do from now on."`
	For    time.Duration `name:"for" placeholder:"DURATION" help:"${whatiffor}"`
	Set    []string      `name:"set" sep:"none" placeholder:"MODEL.FIELD=VALUE" help:"${whatifset}"`
	Demand []string      `name:"demand" sep:"none" placeholder:"MODEL=RATE" help:"${whatifdemand}"`
	Costs  []string      `name:"costs" sep:"none" placeholder:"FILE" help:"${whatifcosts}"`
	Seed   uint64        `name:"seed" placeholder:"N" help:"Of the simulated arrivals (default: 0)."`
}

const (
	whatIfDefault = 10 * time.Minute
	whatIfMost    = 24 * time.Hour
)

// check returns an error if the options exclude each other.
func (w *whatIfOptions) check(other bool) error {
	set := w.For != 0 || w.Seed != 0 || len(w.Set)+len(w.Demand)+len(w.Costs) > 0
	switch {
	case !w.WhatIf && set:
		return errors.New("--for, --set, --demand, --costs and --seed need --what-if")
	case w.WhatIf && other:
		return errors.New("--what-if simulates the whole pool; leave out the model, --history and --number")
	case w.For < 0 || w.For > whatIfMost:
		return fmt.Errorf("--for must be positive and at most %s, such as 10m", whatIfMost)
	}
	if w.For == 0 {
		w.For = whatIfDefault
	}
	return nil
}

// simulate simulates the cluster, and prints what happens.
func (w *whatIfOptions) simulate(c console, output string, ask top.Ask) error {
	profiles, err := w.profiles(c)
	if err != nil {
		return &usageError{err}
	}
	cluster, err := whatif.Observe(context.Background(), ask)
	if err != nil {
		return err
	}
	report, err := whatif.Run(cluster, whatif.Options{For: w.For, Seed: w.Seed, Set: w.Set, Demand: w.Demand,
		Profiles: profiles})
	if err != nil {
		return err
	}
	if output == "json" {
		out := json.NewEncoder(c.out)
		out.SetIndent("", "  ")
		return out.Encode(report)
	}
	_, err = fmt.Fprint(c.out, report.Text())
	return err
}

// profiles returns the profiles of --costs, then those that troupe calibrate has written, then those that ship.
func (w *whatIfOptions) profiles(c console) (all []cost.Profile, err error) {
	for _, name := range w.Costs {
		p, err := costfile.Read(name)
		if err != nil {
			return nil, fmt.Errorf("--costs: %w", err)
		}
		all = append(all, p)
	}
	if data, err := defaultData(machineName()); err == nil {
		measured, err := profilesIn(filepath.Join(data, profilesFolder))
		if err != nil {
			fmt.Fprintf(c.log, "left out: %v\n", err)
		}
		all = append(all, measured...)
	}
	for _, name := range costfile.Shipped() {
		p, err := costfile.Read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
