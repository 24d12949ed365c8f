package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/cuda"
	"troupe/internal/costfile"
	"troupe/messages"
	"troupe/recording"
	"troupe/simulate"
	"troupe/simulate/recorded"
	"troupe/testkit/models"
	"troupe/tools/profiles"
	"troupe/workload"
)

// Models that sleep and are woken, one after another: a device has room for the weights of two.
const (
	sleepers      = 3
	sleeperBytes  = 24 << 20
	sleeperBlocks = 64
	sleeperStep   = 64 // tokens
	sleeperBatch  = 4  // sequences
	sleepAfter    = 2 * time.Second
	wakeDevice    = "host:1x192MiBx1"
	wakeCache     = 512 << 20
)

// wakes compares wakes, loads of weights and switches of one device.
func (m *measurement) wakes(ctx context.Context, binary, dir string) (s section, err error) {
	r, err := m.recordingOf(dir, func() error { return m.recordWakes(ctx, binary, dir) })
	if err != nil {
		return s, err
	}
	profiles, err := profilesIn(filepath.Join(dir, "profiles"))
	if err != nil {
		return s, err
	}
	result, err := simulateWakes(r, profiles)
	if err != nil {
		return s, err
	}
	text := about(r, "They are for %d models of %d MiB, one after another. Each sleeps after %v and is woken by the "+
		"next request. The costs are as calibrated. Before a model serves, it computes a few tokens as a check, "+
		"which is not simulated. A switch is a start on a device from which the model before has gone; here it "+
		"often goes within a second of that start, so that it is chance which comes first.",
		sleepers, sleeperBytes>>20, sleepAfter)
	return section{"Wakes and switches: one device", text, append(ofRequests(recorded.Compare(r, result)),
		recorded.Lives(r, result)...)}, nil
}

// recordWakes measures the costs of the models, and records requests that wake them.
func (m *measurement) recordWakes(ctx context.Context, binary, dir string) error {
	var folders []string
	for i := range sleepers {
		folder, err := filepath.Abs(filepath.Join(dir, "models", fmt.Sprintf("sleeper-%d", i)))
		if err != nil {
			return err
		}
		if err := models.Random(model, folder, sleeperBytes, cuda.BF16, uint64(i+1)); err != nil {
			return err
		}
		folders = append(folders, folder)
	}
	err := calibrateAll(ctx, binary, filepath.Join(dir, "profiles"), wakeDevice, m.calibrate, folders)
	if err != nil {
		return err
	}
	c, err := startCluster(ctx, binary, dir, nodeOptions{
		{"--devices", wakeDevice, "--weights-dram", fmt.Sprint(wakeCache)}, {"--devices", "host:1x16MiB"}})
	if err != nil {
		return err
	}
	defer c.stop()
	for _, folder := range folders {
		err := c.ask(ctx, "models.deploy", &messages.DeployModelRequest{Deployment: &messages.DeploymentSpec{
			Name: filepath.Base(folder), Path: folder, Replicas: new(uint32(0)), MinReplicas: new(uint32(0)),
			MaxReplicas: new(uint32(1)), IdleAfter: new(uint32(sleepAfter.Seconds())),
			KvBlocks: new(uint32(sleeperBlocks)), StepTokens: new(uint32(sleeperStep)),
			MaxSequences: new(uint32(sleeperBatch)),
		}}, &messages.DeployModelResponse{})
		if err != nil {
			return err
		}
	}
	c.to = []string{c.http["n2"]}
	return c.recordTo(ctx, dir, workload.Of(visits(m.run, folders)))
}

// ofRequests returns the metrics that need no totals of replicas, which are lost with them.
func ofRequests(all []recorded.Metric) []recorded.Metric {
	return slices.DeleteFunc(all, func(m recorded.Metric) bool {
		return m.Name == recorded.Steps || m.Name == recorded.Preemptions || m.Name == recorded.Switches
	})
}

// visits returns a few requests for one model after another, with pauses in which the last one goes to sleep.
func visits(length time.Duration, folders []string) (all []workload.Request) {
	random, last := rand.New(rand.NewPCG(5, 0)), -1
	for at := time.Second; at < length; at += 2*sleepAfter + time.Duration(random.Int64N(int64(4*time.Second))) {
		next := random.IntN(len(folders))
		if next == last {
			next = (next + 1) % len(folders)
		}
		last = next
		for i := range 1 + random.IntN(3) {
			all = append(all, workload.Request{At: at + time.Duration(i)*100*time.Millisecond,
				Model: filepath.Base(folders[next]), Prompt: 30 + random.IntN(60), Output: 10 + random.IntN(10)})
		}
	}
	return all
}

// simulateWakes simulates the requests with models that sleep.
func simulateWakes(r *recording.Recording, profiles map[string]cost.Profile) (result simulate.Result, err error) {
	requests, refused := r.Workload()
	if refused > 0 {
		return result, fmt.Errorf("%d requests were refused", refused)
	}
	cfg := simulate.Config{Name: "wakes", Duration: recording.Duration(r.End.At), KVReserve: hbm.DefaultKVReserve}
	at := r.Snapshot.Nodes[0]
	for _, n := range r.Snapshot.Nodes {
		if n.Name == "n1" {
			at = n
		}
	}
	for _, d := range r.Snapshot.Deployments {
		p := profiles[d.Name]
		costs, disk, network := simulate.CostsOf(p)
		if len(cfg.Devices) == 0 {
			cfg.Nodes = []simulate.Node{{Name: at.Name, Disk: disk, Network: network, HostCache: wakeCache}}
			cfg.Devices = []simulate.Device{{Node: at.Name, Name: at.Devices[0].Name, Kind: at.Devices[0].Kind,
				Memory: at.Devices[0].MemoryBytes, Costs: costs}}
		}
		cfg.Deployments = append(cfg.Deployments, simulate.Deployment{Name: d.Name, WeightBytes: p.Model.WeightBytes(),
			KVTokenBytes: p.Model.KVTokenBytes(), Layers: p.Model.Layers, ContextTokens: p.Model.ContextTokens,
			Times:       map[string]simulate.StepTimer{at.Devices[0].Kind: p.Steps.Steps},
			MaxReplicas: 1, Priority: schedule.Standard, IdleAfter: sleepAfter, Wait: true, Class: batch.Standard,
			MaxSequences: d.MaxSequences,
			MaxWaiting:   d.MaxWaiting, StepTokens: d.StepTokens, BlockTokens: d.BlockTokens, KVBlocks: sleeperBlocks})
	}
	return simulate.Run(cfg, workload.Of(requests))
}

// calibrateAll measures the costs of models on a device, and keeps them in a folder.
func calibrateAll(ctx context.Context, binary, dir, device string, length time.Duration, folders []string) error {
	say("calibrating %d models, %v", len(folders), length)
	args := []string{"calibrate", "--devices", device, "--time", length.String(), "--out", dir,
		"--step-tokens", fmt.Sprint(sleeperStep), "--max-sequences", fmt.Sprint(sleeperBatch)}
	for _, folder := range folders {
		args = append(args, "--model", folder)
	}
	return profiles.Run(ctx, binary, args...)
}

// profilesIn returns the costs in a folder by the name of the model.
func profilesIn(dir string) (map[string]cost.Profile, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != sleepers {
		return nil, fmt.Errorf("%d profiles in %s, want %d: %w", len(files), dir, sleepers, err)
	}
	all := make(map[string]cost.Profile)
	for _, file := range files {
		p, err := costfile.Read(file)
		if err != nil {
			return nil, err
		}
		all[p.Model.Name] = p
	}
	return all, nil
}
