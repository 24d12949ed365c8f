package main

import (
	"fmt"
	"strings"
	"time"

	"troupe/simulate"
)

const dayScenario = "scheduler-day"

// models of the day, in the order of the scenario. The last one has no SLO.
var models = []string{"code", "translate", "chat", "summarize"}

// day is a day of demand.
type day struct {
	peaks string // one of allPeaks
	hours int    // in which it passes
}

var allPeaks = []string{"correlated", "anti-correlated"}

// peaks are the times of the peaks, in hours of 24.
var peaks = map[string][]int{"correlated": {14, 14, 14, 14}, "anti-correlated": {14, 2, 8, 20}}

// day returns the day with some peaks that passes in the hours of the study.
func (s *study) day(peaks string) day { return day{peaks, s.hours} }

// key returns the key of the results of a way to serve the day.
func (d day) key(way string) string { return fmt.Sprintf("day of %d h/%s/%s", d.hours, d.peaks, way) }

// demand returns the settings for the day.
func (d day) demand() (set []simulate.Setting) {
	set = settings(fmt.Sprintf("duration=%dh", d.hours))
	for i, m := range models {
		peak := time.Duration(peaks[d.peaks][i]) * time.Hour * time.Duration(d.hours) / 24
		set = append(set, settings(fmt.Sprintf("workload.%s.diurnal.period=%dh", m, d.hours),
			fmt.Sprintf("workload.%s.diurnal.peak=%s", m, peak))...)
	}
	return set
}

// serve plans a run of the day.
func (s *study) serve(d day, way string, seed int, set ...simulate.Setting) {
	s.simulate(d.key(way), dayScenario, seed, append(d.demand(), set...)...)
}

// ways are the scheduler and the baselines. The allocation of the published table is 4 replicas of code with
// two devices each, 2 of translate, 4 of chat and 2 of summarize.
var ways = []struct {
	name string
	set  []simulate.Setting
}{
	{"slo", nil},
	{"least-loaded", settings("policies.placement=least-loaded")},
	{"threshold", settings("policies.policy=threshold")},
	{"static", settings("policies.policy=static", "deployments.translate.replicas=2", "deployments.chat.replicas=4",
		"deployments.summarize.replicas=2")},
}

// settings returns settings of the form key=value.
func settings(all ...string) (set []simulate.Setting) {
	for _, s := range all {
		key, value, _ := strings.Cut(s, "=")
		set = append(set, simulate.Setting{Key: key, Value: value})
	}
	return set
}

// days simulates the day in all ways.
func (s *study) days() error {
	for seed := 1; seed <= s.seeds; seed++ {
		for _, when := range allPeaks {
			for _, way := range ways {
				s.serve(s.day(when), way.name, seed, way.set...)
			}
			if err := s.bound(s.day(when), seed, mode{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// realHours are the hours of a real day.
const realHours = 24

// long simulates the day with its real length.
func (s *study) long() error {
	for _, when := range allPeaks {
		d := day{when, realHours}
		s.serve(d, "slo", 1)
		if err := s.bound(d, 1, mode{}); err != nil {
			return err
		}
	}
	return nil
}
