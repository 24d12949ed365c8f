package main

import (
	"context"
	"fmt"
	"path/filepath"

	"troupe/core/cost"
	"troupe/messages"
	"troupe/simulate"
	"troupe/simulate/recorded"
	"troupe/workload"
)

// The adapters: so many names with the files of those that ship, on so many pages of a device, each of which takes one.
const (
	adapterCount = 24
	adapterPages = 6
	maxAdapters  = 4 // in a step
)

// adapterLoad has requests for adapters by Zipf.
var adapterLoad = workload.Load{
	Rate:     3,
	Prompt:   workload.Lengths{Lognormal: workload.Lognormal{Median: 60, Sigma: 0.5}, Max: 300},
	Output:   workload.Lengths{Lognormal: workload.Lognormal{Median: 30, Sigma: 0.5}, Max: 100},
	Adapters: workload.Names{Name: "adapter", Count: adapterCount, Zipf: 1.1},
}

// adapters compares loads of adapters, on two devices.
func (m *measurement) adapters(ctx context.Context, binary, dir string) (s section, err error) {
	p, err := m.costs(ctx, binary)
	if err != nil {
		return s, err
	}
	c, err := startCluster(ctx, binary, dir, withDevice(3))
	if err != nil {
		return s, err
	}
	defer c.stop()
	folder, err := filepath.Abs(model)
	if err != nil {
		return s, err
	}
	spec := &messages.DeploymentSpec{Name: deployed, Path: folder, KvBlocks: new(uint32(kvBlocks)),
		AdapterPages: new(uint32(adapterPages)), MaxAdapters: new(uint32(maxAdapters))}
	if err := c.deploy(ctx, spec, 2); err != nil {
		return s, err
	}
	sizes, err := c.register(ctx, folder)
	if err != nil {
		return s, err
	}
	if err := c.warm(ctx, deployed); err != nil {
		return s, err
	}
	load := adapterLoad
	load.Length = m.run
	r, err := c.recordTo(ctx, dir, load.Requests(3))
	if err != nil {
		return s, err
	}
	result, err := simulateWith(r, []cost.Profile{p}, func(cfg *simulate.Config) {
		cfg.Deployments[0].Adapters = &simulate.Adapters{Pages: adapterPages, Max: maxAdapters, Bytes: sizes}
		link := simulate.Link{BytesPerSecond: p.Copies.HostToDevice.BytesPerSecond}
		for i := range cfg.Devices {
			cfg.Devices[i].Up, cfg.Devices[i].Down = link, link
		}
		disk := simulate.Link{BytesPerSecond: p.Copies.DiskToHost.BytesPerSecond}
		for _, n := range r.Snapshot.Nodes {
			cfg.Nodes = append(cfg.Nodes, simulate.Node{Name: n.Name, DiskRead: disk, HostCache: 64 << 20})
		}
	})
	if err != nil {
		return s, err
	}
	text := about(r, "Each was for one of %d adapters, by Zipf with the exponent %v, of which %d are on a device at "+
		"once. The costs are as calibrated.", adapterCount, load.Adapters.Zipf, adapterPages)
	return section{"Adapters: two devices", text, recorded.Compare(r, result)}, nil
}

// register registers the adapters, and returns their sizes.
func (c *cluster) register(ctx context.Context, folder string) (sizes []int64, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "adapters", "*", "adapter_config.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no adapters in %s: %w", folder, err)
	}
	for i := range adapterCount {
		answer := &messages.RegisterAdapterResponse{}
		err := c.ask(ctx, "adapters.register", &messages.RegisterAdapterRequest{Adapter: &messages.AdapterSpec{
			Name: adapterLoad.Adapters.At(i), Model: deployed, Path: filepath.Dir(files[i%len(files)]),
		}}, answer)
		if err != nil {
			return nil, err
		}
		if i < len(files) {
			sizes = append(sizes, int64(answer.GetAdapter().GetBytes()))
		}
	}
	return sizes, nil
}
