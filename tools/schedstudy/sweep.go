package main

import (
	"fmt"

	"troupe/simulate"
)

// sweep has the settings of the policy "threshold" that are compared. The first ones are the defaults.
var sweep = []thresholds{{0.85, 0.6}, {0.7, 0.6}, {0.7, 0.45}, {0.6, 0.45}, {0.5, 0.35}}

// thresholds are the share of the places in use above which the policy "threshold" adds a replica, and that of the
// others up to which it removes one.
type thresholds struct{ up, down float64 }

// enough is the share of the requests of each model that a schedule must serve within the SLO.
const enough = 0.99

// sweeps simulates the day with settings of the policy "threshold".
func (s *study) sweeps() error {
	for seed := 1; seed <= s.seeds; seed++ {
		for _, when := range allPeaks {
			for _, at := range sweep {
				s.serve(s.day(when), at.key(), seed, at.set()...)
			}
		}
	}
	return nil
}

func (t thresholds) set() []simulate.Setting {
	return settings("policies.policy=threshold", fmt.Sprintf("policies.up_at=%g", t.up),
		fmt.Sprintf("policies.down_at=%g", t.down))
}

func (t thresholds) key() string {
	if t == sweep[0] {
		return "threshold"
	}
	return fmt.Sprintf("threshold, up at %g, down at %g", t.up, t.down)
}

// best returns the settings with the least device-hours, of those with enough requests within the SLO.
func (s *study) best(when string) thresholds {
	best, least := sweep[0], 0.0
	for _, at := range sweep {
		key := s.day(when).key(at.key())
		hours := mean(s.figures(key, func(_ int, r run) float64 { return r.DeviceHours }))
		carries := mean(s.figures(key, func(_ int, r run) float64 { return r.attained() })) >= enough
		if carries && (least == 0 || hours < least) {
			best, least = at, hours
		}
	}
	return best
}

func mean(all []float64) (sum float64) {
	for _, f := range all {
		sum += f / float64(len(all))
	}
	return sum
}

// sweepTable returns the results of all settings with some peaks.
func (s *study) sweepTable(when string) string {
	var rows []string
	for _, at := range sweep {
		d := s.day(when)
		rows = append(rows, s.dayRow(fmt.Sprintf("%g | %g", at.up, at.down), d.key(at.key()), d, mode{}))
	}
	return table("| up_at | down_at "+dayHead, rows)
}
