package main

import (
	"troupe/simulate"
	"troupe/simulate/scenario"
	"troupe/workload"
)

const (
	zipfScenario = "scheduler-zipf"
	hotModels    = 4
)

// zipf simulates twenty models on four devices, and those with the most requests alone on them.
func (s *study) zipf() error {
	for seed := 1; seed <= s.seeds; seed++ {
		if err := s.simulate("zipf/all", zipfScenario, seed); err != nil {
			return err
		}
		if err := s.simulateSome("zipf/hot models alone", zipfScenario, seed, hotModels); err != nil {
			return err
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
