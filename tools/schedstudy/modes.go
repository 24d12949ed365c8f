package main

import (
	"errors"
	"fmt"

	"troupe/simulate"
	"troupe/tools/bound"
)

// buckets is the number of buckets of a day: 15 minutes each, in 24 hours.
const buckets = 96

// mode is what a schedule of the day may do. The zero mode has the limits of the table, whole devices, and batch at
// once.
type mode struct {
	unbounded bool // maximums so high that the pool is the limit
	fromZero  bool // no minimums
	bound.Mode
}

// allModes returns all modes.
func allModes() (all []mode) {
	for i := range 16 {
		all = append(all, mode{i&2 != 0, i&1 != 0, bound.Mode{Shared: i&4 != 0, Later: i&8 != 0}})
	}
	return all
}

// String returns the words for the mode in tables and keys.
func (m mode) String() string {
	name := "slo"
	for _, w := range []struct {
		is   bool
		word string
	}{{m.fromZero, "from 0"}, {m.unbounded, "unbounded"}, {m.Shared, "shared"}, {m.Later, "within the day"}} {
		if w.is {
			name += ", " + w.word
		}
	}
	return name
}

// limits returns the settings for the limits of the mode.
func (m mode) limits() (set []simulate.Setting) {
	for i, name := range models {
		at := "deployments." + name
		if m.unbounded && i > 0 { // code has 8 replicas with two devices each
			set = append(set, settings(at+".max_replicas=16")...)
		}
		if m.fromZero {
			set = append(set, settings(at+".min_replicas=0")...)
		}
	}
	return set
}

// sharedDevices are those that the models without devices of their own share. They are few, but enough to serve 99 %
// of the requests of seed 1 within the SLO.
var sharedDevices = map[string]string{
	"correlated":      "[a/gpu-5, a/gpu-6, a/gpu-7, b/gpu-5, b/gpu-6, b/gpu-7]",
	"anti-correlated": "[a/gpu-6, a/gpu-7, b/gpu-6, b/gpu-7]",
}

// set returns the settings for the mode on a day with some peaks.
func (m mode) set(peaks string) (set []simulate.Setting) {
	set = m.limits()
	for _, name := range models[1:] {
		if at := "deployments." + name; m.Shared {
			set = append(set, settings(at+".devices="+sharedDevices[peaks])...)
			if name != models[3] {
				set = append(set, settings(at+".replicas=1")...) // the default is one on each
			}
		}
	}
	if m.Later {
		set = append(set, settings("deployments.summarize.max_replicas=1")...)
	}
	return set
}

// modes simulates the day in all modes, and computes their bounds.
func (s *study) modes() error {
	for seed := 1; seed <= s.seeds; seed++ {
		for _, m := range allModes() {
			for _, when := range allPeaks {
				s.serve(s.day(when), m.String(), seed, m.set(when)...)
				if err := s.bound(s.day(when), seed, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// bound plans the least device-hours of a day, and the largest multiple of its demand.
func (s *study) bound(d day, seed int, m mode) error {
	key := boundKey(d, seed, m)
	if _, known := s.results.Bounds[key]; known || s.skips(key) {
		return nil
	}
	solver, err := bound.NewSolver(s.solver)
	if errors.Is(err, bound.ErrNoSolver) {
		return nil // the page says that they are missing
	}
	if err != nil {
		return err
	}
	s.jobs = append(s.jobs, job{key, func() error {
		demand, err := s.demandOf(d, seed, m)
		if err != nil {
			return err
		}
		hours, err := solver.DeviceHours(demand)
		if err != nil {
			return err
		}
		multiple, err := solver.Multiple(demand)
		if err != nil {
			return err
		}
		return s.keep(func(r *results) { r.Bounds[key], r.Bounds[key+multipleOf] = hours[0], multiple })
	}})
	return nil
}

// multipleOf is the end of the key of the largest multiple.
const multipleOf = ", multiple"

func boundKey(d day, seed int, m mode) string {
	return fmt.Sprintf("%s/%d/%s", d.key("bound"), seed, m)
}

// leastOf returns the least device-hours of a day that are possible in a mode, or 0 if they are not known.
func (s *study) leastOf(d day, seed int, m mode) float64 {
	return s.results.Bounds[boundKey(d, seed, m)]
}

// largestOf returns the largest multiple of the demand of a day that is possible in a mode, or 0 if it is not known.
func (s *study) largestOf(d day, seed int, m mode) float64 {
	return s.results.Bounds[boundKey(d, seed, m)+multipleOf]
}

// demandOf returns the demand of a day, as its requests have it.
func (s *study) demandOf(d day, seed int, m mode) (bound.Day, error) {
	sc, err := s.read(dayScenario, append(d.demand(), m.limits()...)...)
	if err != nil {
		return bound.Day{}, err
	}
	source, err := sc.Requests(uint64(seed))
	if err != nil {
		return bound.Day{}, err
	}
	hours := float64(d.hours) / buckets
	out := bound.Day{Devices: len(sc.Config.Devices), Hours: hours, Mode: m.Mode}
	index := make(map[string]int)
	for i, d := range sc.Config.Deployments {
		index[d.Name] = i
		known := s.results.Capacities[d.Name]
		out.Models = append(out.Models, bound.Model{Name: d.Name, Group: d.Group, Min: d.MinReplicas,
			Max: d.MaxReplicas, Rates: make([]float64, buckets), Capacity: known[:min(len(known), d.MaxReplicas)],
			Shares: d.Group == 1, Batch: d.Name == models[3]})
	}
	for r, err := range source {
		if err != nil {
			return bound.Day{}, err
		}
		bucket := min(buckets-1, int(r.At.Hours()/hours))
		out.Models[index[r.Model]].Rates[bucket] += 1 / (3600 * hours)
	}
	return out, nil
}
