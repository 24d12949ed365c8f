package main

import "fmt"

// sweep has the settings of the policy "threshold" that are compared: the share of the places in use above which it
// adds a replica, and that of the others up to which it removes one. The first ones are the defaults.
var sweep = []struct{ up, down float64 }{{0.85, 0.6}, {0.7, 0.6}, {0.7, 0.45}, {0.6, 0.45}, {0.5, 0.35}}

const sweepPeaks = "correlated"

// sweeps simulates the day with settings of the policy "threshold".
func (s *study) sweeps() error {
	for seed := 1; seed <= s.seeds; seed++ {
		for _, at := range sweep[1:] {
			set := append(s.demand(sweepPeaks), settings("policies.policy=threshold",
				fmt.Sprintf("policies.up_at=%g", at.up), fmt.Sprintf("policies.down_at=%g", at.down))...)
			if err := s.simulate(s.sweepKey(at.up, at.down), dayScenario, seed, set...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *study) sweepKey(up, down float64) string {
	if up == sweep[0].up && down == sweep[0].down {
		return s.dayKey(sweepPeaks, "threshold")
	}
	return s.dayKey(sweepPeaks, fmt.Sprintf("threshold, up at %g, down at %g", up, down))
}

func (s *study) sweepTable() string {
	var rows []string
	for _, at := range sweep {
		row := s.dayRow(fmt.Sprintf("%g | %g", at.up, at.down), s.sweepKey(at.up, at.down), sweepPeaks, modes[0].name)
		rows = append(rows, row)
	}
	return table("| up_at | down_at "+dayHead, rows)
}
