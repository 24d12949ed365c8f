package main

import "fmt"

const (
	zipfScenario = "scheduler-zipf"
	zipfModels   = 20
	hotModels    = 4
)

// zipf simulates twenty models on four devices, and each of the hot ones alone on them.
func (s *study) zipf() error {
	for seed := 1; seed <= s.seeds; seed++ {
		if err := s.simulate("zipf/all", zipfScenario, seed); err != nil {
			return err
		}
		var alone []string
		for i := hotModels; i < zipfModels; i++ { // a rate of 0 is not allowed
			alone = append(alone, fmt.Sprintf("workload.m%02d.rate=1e-9", i+1))
		}
		if err := s.simulate("zipf/hot models alone", zipfScenario, seed, settings(alone...)...); err != nil {
			return err
		}
	}
	return nil
}
