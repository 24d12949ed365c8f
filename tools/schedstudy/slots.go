package main

import (
	"fmt"
	"slices"
	"time"

	"troupe/tools/schedstudy/slots"
)

const slotScenario = "scheduler-slots"

// slotWaits are the bounds of waits for which loads are counted.
var slotWaits = []time.Duration{time.Second, time.Minute, time.Hour}

// waitWords are the waits in tables.
var waitWords = map[time.Duration]string{time.Second: "1 s", time.Minute: "1 min", time.Hour: "1 h"}

// slots compares the loads of five models on three devices with the least possible.
func (s *study) slots() error {
	for seed := 1; seed <= s.seeds; seed++ {
		if err := s.slotBounds(seed); err != nil {
			return err
		}
		for _, wait := range slotWaits {
			var set []string
			for _, m := range []string{"a", "b", "c", "d", "e"} {
				set = append(set, fmt.Sprintf("deployments.%s.wake_wait=%s", m, wait))
			}
			if wait == time.Second { // the residence would be a longer wait
				set = append(set, "policies.residence=1ms", "policies.residence_loads=0.001")
			}
			s.simulate("slots/"+wait.String(), slotScenario, seed, settings(set...)...)
		}
	}
	return nil
}

// slotBounds computes the least loads for each wait, those of LRU, and what the requests are like.
func (s *study) slotBounds(seed int) error {
	if _, known := s.results.Bounds[fmt.Sprintf("slots/%d/%s", seed, slotWaits[0])]; known {
		return nil
	}
	sc, err := s.read(slotScenario)
	if err != nil {
		return err
	}
	var names []string
	var held []int
	for i, d := range sc.Config.Deployments {
		if names = append(names, d.Name); d.Replicas > 0 {
			held = append(held, i)
		}
	}
	source, err := sc.Requests(uint64(seed))
	if err != nil {
		return err
	}
	var all []slots.Request
	rareRequests := 0
	for r, err := range source {
		if err != nil {
			return err
		}
		i := slices.Index(names, r.Model)
		if !slices.Contains(held, i) {
			rareRequests++
		}
		all = append(all, slots.Request{At: r.At, Model: i})
	}
	total, rare := 0, 0
	for i, n := range slots.LRU(all, len(names), held) {
		if total += n; !slices.Contains(held, i) {
			rare += n
		}
	}
	b := s.results.Bounds
	at := func(what string) string { return fmt.Sprintf("slots/%d/%s", seed, what) }
	b[at("LRU")], b[at("rare loads")] = float64(total), float64(rare)/float64(total)
	b[at("rare requests")] = float64(rareRequests) / float64(len(all))
	for _, wait := range slotWaits {
		b[at(wait.String())] = float64(slots.Least(all, len(names), held, wait))
	}
	return s.results.save(s.file)
}
