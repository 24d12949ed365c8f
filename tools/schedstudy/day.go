package main

import (
	"errors"
	"fmt"
	"time"

	"troupe/simulate"
	"troupe/tools/bound"
)

const dayScenario = "scheduler-day"

// buckets is the number of buckets of a day: 15 minutes each, in 24 hours.
const buckets = 96

// models of the day, in the order of the scenario.
var models = []string{"code", "translate", "chat", "summarize"}

// peaks are the times of the peaks, in hours of 24.
var peaks = map[string][]int{"correlated": {14, 14, 14, 14}, "anti-correlated": {14, 2, 8, 20}}

// dayRow is a way to serve a day, and its settings.
type dayRow struct {
	name string
	set  []simulate.Setting
}

// ways are the scheduler and the baselines. The allocation of the published table is 4 replicas of code with
// two devices each, 2 of translate, 4 of chat and 2 of summarize.
var ways = []dayRow{
	{"slo", nil},
	{"slo, from 0", settings("deployments.code.min_replicas=0", "deployments.translate.min_replicas=0",
		"deployments.chat.min_replicas=0")},
	{"least-loaded", settings("policies.placement=least-loaded")},
	{"threshold", settings("policies.policy=threshold")},
	{"static", settings("policies.policy=static", "deployments.translate.replicas=2", "deployments.chat.replicas=4",
		"deployments.summarize.replicas=2")},
}

// settings returns settings of the form key=value.
func settings(all ...string) (set []simulate.Setting) {
	for _, s := range all {
		for i := range s {
			if s[i] == '=' {
				set = append(set, simulate.Setting{Key: s[:i], Value: s[i+1:]})
				break
			}
		}
	}
	return set
}

// demand returns the settings for a day with some peaks, that passes in a number of hours.
func (s *study) demand(when string) (set []simulate.Setting) {
	set = settings(fmt.Sprintf("duration=%dh", s.hours))
	for i, m := range models {
		peak := time.Duration(peaks[when][i]) * time.Hour * time.Duration(s.hours) / 24
		set = append(set, settings(fmt.Sprintf("workload.%s.diurnal.period=%dh", m, s.hours),
			fmt.Sprintf("workload.%s.diurnal.peak=%s", m, peak))...)
	}
	return set
}

// days simulates all rows for all demands, and computes their bounds.
func (s *study) days() error {
	for _, when := range []string{"correlated", "anti-correlated"} {
		for seed := 1; seed <= s.seeds; seed++ {
			for _, way := range ways {
				set := append(s.demand(when), way.set...)
				if err := s.simulate(s.dayKey(when, way.name), dayScenario, seed, set...); err != nil {
					return err
				}
			}
			if err := s.bounds(when, seed); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *study) dayKey(when, way string) string {
	return fmt.Sprintf("day of %d h/%s/%s", s.hours, when, way)
}

// mode is a bound of a day.
type mode struct {
	name    string
	minimum bool // minimums as in the scenario; else 0
	bound.Mode
}

var modes = []mode{
	{"whole devices, minimums", true, bound.Mode{}},
	{"whole devices, from 0", false, bound.Mode{}},
	{"shared devices, minimums", true, bound.Mode{Shared: true}},
	{"whole devices, minimums, batch within the day", true, bound.Mode{Later: true}},
}

// bounds computes the least device-hours of a day, and the largest multiple of its demand, in each mode.
func (s *study) bounds(when string, seed int) error {
	solver, err := bound.NewSolver(s.solver)
	if errors.Is(err, bound.ErrNoSolver) {
		return nil // the page says that they are missing
	}
	if err != nil {
		return err
	}
	for _, m := range modes {
		key := fmt.Sprintf("%s/%d/%s", s.dayKey(when, "bound"), seed, m.name)
		if _, known := s.results.Bounds[key]; known {
			continue
		}
		day, err := s.dayOf(when, seed, m)
		if err != nil {
			return err
		}
		hours, err := solver.DeviceHours(day)
		if err != nil {
			return err
		}
		s.results.Bounds[key] = hours[0]
		if s.results.Bounds[key+", multiple"], err = solver.Multiple(day); err != nil {
			return err
		}
		if err := s.results.save(s.file); err != nil {
			return err
		}
	}
	return nil
}

// dayOf returns the demand of a day, as its requests have it.
func (s *study) dayOf(when string, seed int, m mode) (bound.Day, error) {
	sc, err := s.read(dayScenario, s.demand(when)...)
	if err != nil {
		return bound.Day{}, err
	}
	source, err := sc.Requests(uint64(seed))
	if err != nil {
		return bound.Day{}, err
	}
	hours := float64(s.hours) / buckets
	day := bound.Day{Devices: len(sc.Config.Devices), Hours: hours, Mode: m.Mode}
	index := make(map[string]int)
	for i, d := range sc.Config.Deployments {
		index[d.Name] = i
		least := d.MinReplicas
		if !m.minimum {
			least = 0
		}
		day.Models = append(day.Models, bound.Model{Name: d.Name, Group: d.Group, Min: least, Max: d.MaxReplicas,
			Rates: make([]float64, buckets), Capacity: s.results.Capacities[d.Name],
			Shares: d.Group == 1, Batch: d.Name == "summarize"})
	}
	for r, err := range source {
		if err != nil {
			return bound.Day{}, err
		}
		bucket := min(buckets-1, int(r.At.Hours()/hours))
		day.Models[index[r.Model]].Rates[bucket] += 1 / (3600 * hours)
	}
	return day, nil
}
