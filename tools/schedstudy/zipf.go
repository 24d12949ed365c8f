package main

import (
	"troupe/simulate"
	"troupe/simulate/scenario"
	"troupe/workload"
)

const (
	zipfScenario = "scheduler-zipf"
	hotModels    = 4
	fitting      = 12 // models that fit on the devices
)

// zipfRow is a simulation of the first models of the scenario.
type zipfRow struct {
	name   string
	models int // 0: all
	set    []simulate.Setting
}

// zipfRows are the rows of the table.
var zipfRows = []zipfRow{
	{"hot models alone", hotModels, nil},
	{"the twelve that fit", fitting, nil},
	{"all", 0, nil},
	{"all, hot ones high", 0, settings("deployments.m01.priority=high", "deployments.m02.priority=high",
		"deployments.m03.priority=high", "deployments.m04.priority=high")},
}

func (r zipfRow) key() string { return "zipf/" + r.name }

// zipf simulates twenty models on four devices, and some of them alone.
func (s *study) zipf() error {
	for seed := 1; seed <= s.seeds; seed++ {
		for _, row := range zipfRows {
			s.simulateSome(row.key(), zipfScenario, seed, row.models, row.set...)
		}
	}
	return nil
}

// first leaves out all deployments but the first ones, and their requests.
func first(sc *scenario.Scenario, source workload.Source, n int) (simulate.Config, workload.Source) {
	cfg := sc.Config
	cfg.Deployments = cfg.Deployments[:n]
	kept := make(map[string]bool)
	for _, d := range cfg.Deployments {
		kept[d.Name] = true
	}
	return cfg, func(yield func(workload.Request, error) bool) {
		for r, err := range source {
			if (err != nil || kept[r.Model]) && !yield(r, err) {
				return
			}
		}
	}
}
