package main

import (
	"time"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/hbm"
	"troupe/core/planner"
	"troupe/simulate"
	"troupe/tools/profiles"
	"troupe/workload"
)

// simulated is what the simulator says of the load.
type simulated struct {
	result    simulate.Result
	decisions []decision
}

// noDisk is the bandwidth of a disk that delays nothing: loads of simulated replicas read none, and those of the real
// models are so small that the copy to the device decides.
const noDisk = 1e13

// simulatePool simulates the load with the same pool and the same loss of a node.
func simulatePool(all []*model, real cost.Profile, r *live, length time.Duration) (s simulated, err error) {
	cfg := simulate.Config{Name: "pool", Seed: seed, Duration: length, KVReserve: hbm.DefaultKVReserve}
	var ofReal, ofOthers []string // devices
	realKind, otherKind := "", ""
	costs, _, network := simulate.CostsOf(real)
	others, err := profiles.Predict(kind, baseShape)
	if err != nil {
		return s, err
	}
	otherCosts, _, _ := simulate.CostsOf(others)
	for _, d := range r.devices {
		device := simulate.Device{Node: d.GetNode(), Name: d.GetName(), Kind: d.GetProduct(),
			Memory: int64(d.GetMemoryBytes())}
		name := device.Node + "/" + device.Name
		if d.GetEngine() == "simulated" {
			device.Costs = otherCosts
			ofOthers, otherKind = append(ofOthers, name), device.Kind
		} else {
			device.Costs = costs
			ofReal, realKind = append(ofReal, name), device.Kind
			cfg.Nodes = append(cfg.Nodes, simulate.Node{Name: device.Node, Disk: noDisk, Network: network})
		}
		cfg.Devices = append(cfg.Devices, device)
	}
	for _, m := range all {
		p, on, at := real, ofReal, realKind
		if m.shape != nil {
			if p, err = profiles.Predict(kind, m.folder); err != nil {
				return s, err
			}
			on, at = ofOthers, otherKind
		}
		d := simulate.Deployment{Name: m.name, WeightBytes: p.Model.WeightBytes(), KVTokenBytes: p.Model.KVTokenBytes(),
			Layers: p.Model.Layers, ContextTokens: p.Model.ContextTokens, Replicas: m.min, MinReplicas: m.min,
			MaxReplicas: m.max, IdleAfter: m.idleAfter, Wait: true, Devices: on, Class: batch.Standard,
			Priority: m.priority, MaxSequences: maxSequences, MaxWaiting: 1024, StepTokens: 512,
			BlockTokens: blockTokens, SLO: m.slo, Times: map[string]simulate.StepTimer{at: p.Steps.Steps}}
		if m.shape == nil {
			d.KVBlocks = kvBlocks
		}
		cfg.Deployments = append(cfg.Deployments, d)
	}
	cfg.Faults = []simulate.Fault{{At: r.killed, For: r.away, Node: r.leader}}
	cfg.Watch = func(at time.Duration, e planner.Effect) {
		if ended, ok := e.(planner.Ended); ok {
			for _, w := range ended.Record.Writes {
				for _, c := range w.Changes {
					s.decisions = append(s.decisions, decision{at, w.Name, c.Replica, c.Withdrawn, c.Why})
				}
			}
		}
	}
	var requests []workload.Request
	for _, a := range r.asked {
		requests = append(requests, a.simulated())
	}
	s.result, err = simulate.Run(cfg, workload.Of(requests))
	return s, err
}
