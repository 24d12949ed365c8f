package main

import (
	"fmt"
	"strconv"
	"strings"

	"troupe/simulate"
)

// shares are the multiples of the demand that are simulated, as shares of the largest one that the bound allows.
var shares = []float64{0.95, 1}

// multiples simulates multiples of the demand, near the largest one that any schedule could carry.
func (s *study) multiples() error {
	for _, when := range []string{"correlated", "anti-correlated"} {
		for seed := 1; seed <= s.seeds; seed++ {
			largest := s.boundOf(when, seed, modes[0].name, ", multiple")
			for _, share := range shares {
				if largest == 0 {
					continue
				}
				set := append(s.demand(when), s.times(share*largest)...)
				if err := s.simulate(s.multipleKey(when, share), dayScenario, seed, set...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *study) multipleKey(when string, share float64) string {
	return s.dayKey(when, fmt.Sprintf("%.2f of the largest multiple", share))
}

// times returns the settings for a multiple of the demand of the day.
func (s *study) times(multiple float64) (set []simulate.Setting) {
	sc, err := s.read(dayScenario)
	if err != nil {
		return nil
	}
	for _, m := range models {
		load, _ := sc.Generator(m)
		set = append(set, simulate.Setting{Key: "workload." + m + ".rate",
			Value: strconv.FormatFloat(load.Rate*multiple, 'g', -1, 64)})
	}
	return set
}

func (s *study) multipleTable() string {
	var rows []string
	for _, when := range []string{"correlated", "anti-correlated"} {
		for _, share := range shares {
			key := s.multipleKey(when, share)
			row := fmt.Sprintf("| %s | %.2f | %s", when, share, spread(s.figures(key, func(seed int, _ run) float64 {
				return share * s.boundOf(when, seed, modes[0].name, ", multiple")
			}), "%.2f"))
			for i := range models[:3] {
				row += " | " + s.attained(key, i)
			}
			rows = append(rows, row+" | "+s.ttft(key, 3, "%.0f s")+" |")
		}
	}
	return table("| peaks | λ of the bound | λ | "+strings.Join(models[:3], ", % in SLO | ")+
		", % in SLO | summarize, P99 of TTFT |", rows)
}
