package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"troupe/core/cost"
	"troupe/messages"
	"troupe/recording"
	"troupe/simulate/recorded"
	"troupe/tools/profiles"
	"troupe/workload"
)

// Simulated devices: each node has some, more than the machine has cores, and replicas on most of them.
const (
	shape             = "examples/simulated/shape-8b"
	simulatedKind     = "h200"
	simulatedDevices  = "4x" + simulatedKind
	simulatedReplicas = 8
)

var simulatedLoad = workload.Load{
	Rate: 8, CV: 1.5,
	Prompt:       workload.Lengths{Lognormal: workload.Lognormal{Median: 400, Sigma: 0.8}, Max: 3000},
	Output:       workload.Lengths{Lognormal: workload.Lognormal{Median: 60, Sigma: 0.5}, Max: 200},
	Conversation: workload.Conversation{Turns: 3, System: 64, Block: blockTokens},
}

// simulated compares replicas that compute nothing, on three real nodes at real time, with the same costs on virtual
// time. So it shows the error of all but the costs, with more devices than cores.
func (m *measurement) simulated(ctx context.Context, binary, dir string) (s section, err error) {
	r, err := m.recordingOf(dir, func() error { return m.recordSimulated(ctx, binary, dir) })
	if err != nil {
		return s, err
	}
	p, err := predicted(r)
	if err != nil {
		return s, err
	}
	result, err := simulateWith(r, []cost.Profile{p}, nil)
	if err != nil {
		return s, err
	}
	return section{"Simulated replicas at real time: eight devices", about(r, "Eight replicas with the shape of an 8B "+
		"model ran on simulated H200, on three nodes. Both have the same costs, so this is the error of all but the "+
		"costs: of messages, timers and the machine."), recorded.Compare(r, result)}, nil
}

// recordSimulated records requests to simulated replicas.
func (m *measurement) recordSimulated(ctx context.Context, binary, dir string) error {
	var options nodeOptions
	for range 3 {
		options = append(options, []string{"--devices", "host:1x64MiB", "--simulated-devices", simulatedDevices})
	}
	c, err := startCluster(ctx, binary, dir, options)
	if err != nil {
		return err
	}
	defer c.stop()
	folder, err := filepath.Abs(shape)
	if err != nil {
		return err
	}
	spec := &messages.DeploymentSpec{Name: filepath.Base(shape), Path: folder,
		Engine: &messages.EngineSpec{Kind: "simulated"}}
	if err := c.deploy(ctx, spec, simulatedReplicas); err != nil {
		return err
	}
	if err := c.warm(ctx, spec.GetName()); err != nil {
		return err
	}
	load := simulatedLoad
	load.Length, load.Models = m.run, workload.Names{List: []string{spec.GetName()}}
	return c.recordTo(ctx, dir, load.Requests(4))
}

// predicted returns the costs of the simulated devices of a recording.
func predicted(r *recording.Recording) (p cost.Profile, err error) {
	if p, err = profiles.Predict(simulatedKind, shape); err != nil {
		return p, err
	}
	for _, n := range r.Snapshot.Nodes {
		for _, d := range n.Devices {
			if strings.HasSuffix(d.Kind, "(simulated)") {
				p.Device.Name = d.Kind
				return p, nil
			}
		}
	}
	return p, errors.New("the recording has no simulated device")
}
