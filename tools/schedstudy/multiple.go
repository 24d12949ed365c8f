package main

import (
	"fmt"
	"strconv"
	"strings"

	"troupe/simulate"
)

// shares are the multiples of the demand that are simulated, as shares of the largest one that the bound allows.
var shares = []float64{0.1, 0.25, 0.5, 0.75, 0.95, 1, 1.05}

// carrier is a way to serve multiples of the demand, and the mode of its bound.
type carrier struct {
	name string
	mode mode
	set  []simulate.Setting
}

// carriers returns the ways to serve multiples of the demand.
func (s *study) carriers(when string) []carrier {
	unbounded, best := mode{unbounded: true}, s.best(when)
	return []carrier{{"slo", mode{}, nil}, {unbounded.String(), unbounded, unbounded.set(when)},
		{best.key(), mode{}, best.set()}}
}

// multiples simulates multiples of the demand, near the largest one that any schedule could carry.
func (s *study) multiples() error {
	for seed := 1; seed <= s.seeds; seed++ {
		for _, when := range allPeaks {
			for _, by := range s.carriers(when) {
				largest := s.largestOf(s.day(when), seed, by.mode)
				for _, share := range shares {
					if largest == 0 {
						continue
					}
					set := append(s.times(share*largest), by.set...)
					s.serve(s.day(when), multipleWay(by.name, share), seed, set...)
				}
			}
		}
	}
	return nil
}

func multipleWay(name string, share float64) string {
	return fmt.Sprintf("%s, %.2f of the largest multiple", name, share)
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

// attained returns the least share of the requests of a model with an SLO that were served within it.
func (r run) attained() float64 {
	least := 1.0
	for _, m := range r.Models[:len(models)-1] {
		least = min(least, m.Attained)
	}
	return least
}

// carried returns the largest share of the multiple of the bound with which a part of the requests of each model is
// served within the SLO, and with all smaller ones that were simulated. It returns false if none was.
func (s *study) carried(d day, by carrier, seed int, part float64) (largest float64, known bool) {
	for _, share := range shares {
		r, simulated := s.results.Runs[fmt.Sprintf("%s/%d", d.key(multipleWay(by.name, share)), seed)]
		if known = known || simulated; simulated && r.attained() < part {
			break
		}
		if simulated {
			largest = share
		}
	}
	return largest, known
}

// carriedTable returns the largest multiples of the demand that are carried.
func (s *study) carriedTable() string {
	var rows []string
	for _, when := range allPeaks {
		for _, by := range s.carriers(when) {
			row := fmt.Sprintf("| %s | %s", when, by.name)
			d := s.day(when)
			of := func(part float64, factor func(seed int) float64) (all []float64) {
				for seed := 1; seed <= s.seeds; seed++ {
					if share, known := s.carried(d, by, seed, part); known {
						all = append(all, share*factor(seed))
					}
				}
				return all
			}
			bound := func(seed int) float64 { return s.largestOf(d, seed, by.mode) }
			for _, part := range []float64{1, enough} {
				row += " | " + spread(of(part, bound), "%.2f")
			}
			row += " | " + spread(s.bounds(d, by.mode, s.largestOf), "%.2f")
			rows = append(rows, row+" | "+spread(of(enough, func(int) float64 { return 1 }), "%.2f")+" |")
		}
	}
	return table("| peaks | | λ at 100 % | λ at 99 % | λ of the bound | λ at 99 % / of the bound |", rows)
}

// multipleTable returns what is attained with multiples of the demand.
func (s *study) multipleTable() string {
	var rows []string
	for _, when := range allPeaks {
		d, by := s.day(when), s.carriers(when)[0]
		for _, share := range shares {
			key := d.key(multipleWay(by.name, share))
			row := fmt.Sprintf("| %s | %.2f | %s", when, share, spread(s.figures(key, func(seed int, _ run) float64 {
				return share * s.largestOf(d, seed, by.mode)
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
