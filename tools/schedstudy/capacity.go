package main

import (
	"fmt"
	"slices"
	"time"

	"troupe/simulate"
	"troupe/workload"
)

const (
	// trial is the number of requests with which a rate is tried.
	trial = 2_000
	// precision is the relative error of a capacity.
	precision = 0.02
	// batchWait is how long requests of a model without an SLO may wait for their first token: if the rate is above
	// the capacity, their queue grows without end.
	batchWait = time.Minute
	// batchTrial is how long a rate is tried for them at least, so that a queue has the time to grow that long.
	batchTrial = 10 * batchWait
)

// capacityOf returns the highest rate, in requests per second, at which a number of replicas serve a share of all
// requests within the SLO, each replica on devices of its own. It bisects: each rate is simulated with requests that
// differ only in the times between them.
func capacityOf(cfg simulate.Config, name string, load workload.Load, replicas int, share float64) (float64, error) {
	least := time.Duration(0)
	only := simulate.Config{Name: name, KVReserve: cfg.KVReserve, Nodes: cfg.Nodes}
	for _, d := range cfg.Deployments {
		if d.Name != name {
			continue
		}
		// A replica with several devices is one with a part of the weights, whose steps have the times of the group.
		d.Replicas, d.MinReplicas, d.MaxReplicas, d.IdleAfter, d.Group = replicas, replicas, replicas, 0, 1
		if d.SLO == (simulate.SLO{}) {
			d.SLO.TTFT, least = batchWait, batchTrial
		}
		only.Deployments = append(only.Deployments, d)
	}
	for i := range replicas {
		one := cfg.Devices[0]
		one.Name = fmt.Sprint("gpu-", i)
		only.Devices = append(only.Devices, one)
	}
	load.Diurnal, load.Spikes = workload.Diurnal{}, nil
	carries := func(rate float64) (bool, error) {
		load.Rate, load.Length = rate, max(least, time.Duration(trial/rate*float64(time.Second)))
		only.Duration = load.Length
		if least > 0 { // what comes behind so many waits for longer than batchWait
			queue := int(2 * rate * batchWait.Seconds() / float64(replicas))
			only.Deployments[0].MaxWaiting = min(only.Deployments[0].MaxWaiting, queue+1)
		}
		result, err := simulate.Run(only, named(load.Requests(cfg.Seed), name))
		if err != nil {
			return false, fmt.Errorf("%d replicas of %s at %.3g requests/s: %w", replicas, name, rate, err)
		}
		attained := result.Models[0].SLOAttainment
		return attained != nil && *attained >= share, nil
	}
	low, high := 0.0, 0.0
	for rate := float64(replicas) / 4; ; rate *= 2 {
		ok, err := carries(rate)
		if err != nil {
			return 0, err
		}
		if high = rate; !ok {
			break
		}
		low = rate
	}
	for high-low > precision*high {
		middle := (low + high) / 2
		ok, err := carries(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// capacities computes what replicas of the models of the day serve, up to the largest maximum of all modes. Between the
// numbers that are tried it is linear.
func (s *study) capacities() error {
	sc, err := s.read(dayScenario, mode{unbounded: true}.limits()...)
	if err != nil {
		return err
	}
	for _, d := range sc.Config.Deployments {
		all := slices.Clone(s.results.Capacities[d.Name])
		if len(all) >= d.MaxReplicas {
			continue
		}
		s.jobs = append(s.jobs, job{"capacity/" + d.Name, func() error {
			load, _ := sc.Generator(d.Name)
			for n := 1; n <= d.MaxReplicas; n *= 2 {
				last := len(all)
				if n <= last {
					continue
				}
				rate, err := capacityOf(sc.Config, d.Name, load, n, 0.99)
				if err != nil {
					return err
				}
				for i := last + 1; i < n; i++ {
					all = append(all, all[last-1]+(rate-all[last-1])*float64(i-last)/float64(n-last))
				}
				all = append(all, rate)
			}
			return s.keep(func(r *results) { r.Capacities[d.Name] = all })
		}})
	}
	return nil
}

// named gives all requests of a source the name of a deployment.
func named(source workload.Source, deployment string) workload.Source {
	return func(yield func(workload.Request, error) bool) {
		for r, err := range source {
			r.Model = deployment
			if !yield(r, err) {
				return
			}
		}
	}
}
