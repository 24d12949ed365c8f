package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"troupe/core/cost"
	"troupe/messages"
	"troupe/simulate"
	"troupe/simulate/recorded"
	"troupe/workload"
)

// The adapters: so many names with the files of those that ship, and at least so many pages of a device, each of which
// takes one.
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
	folder, err := filepath.Abs(model)
	if err != nil {
		return s, err
	}
	files, sizes, err := adaptersOf(folder)
	if err != nil {
		return s, err
	}
	r, err := m.recordingOf(dir, func() error { return m.recordAdapters(ctx, binary, dir, folder, files) })
	if err != nil {
		return s, err
	}
	result, err := simulateWith(r, []cost.Profile{p}, func(cfg *simulate.Config) {
		// The pools of the devices grow as long as there is memory, and here there is enough for all adapters.
		cfg.Deployments[0].Adapters = &simulate.Adapters{Pages: adapterCount, Max: maxAdapters, Bytes: sizes}
		link := simulate.Link{BytesPerSecond: p.Copies.HostToDevice.BytesPerSecond}
		for i := range cfg.Devices {
			cfg.Devices[i].Up, cfg.Devices[i].Down = link, link
		}
		disk := simulate.Link{BytesPerSecond: p.Copies.DiskToHost.BytesPerSecond}
		for _, n := range r.Snapshot.Nodes {
			i := slices.IndexFunc(cfg.Nodes, func(o simulate.Node) bool { return o.Name == n.Name })
			if i < 0 {
				i, cfg.Nodes = len(cfg.Nodes), append(cfg.Nodes, simulate.Node{Name: n.Name})
			}
			cfg.Nodes[i].DiskRead, cfg.Nodes[i].HostCache = disk, 64<<20
		}
	})
	if err != nil {
		return s, err
	}
	text := about(r, "Each was for one of %d adapters, by Zipf with the exponent %v. The costs are as calibrated. The "+
		"planner lets both replicas load popular adapters ahead, which is not simulated.", adapterCount,
		adapterLoad.Adapters.Zipf)
	return section{"Adapters: two devices", text, recorded.Compare(r, result)}, nil
}

// recordAdapters records requests for adapters.
func (m *measurement) recordAdapters(ctx context.Context, binary, dir, folder string, files []string) error {
	c, err := startCluster(ctx, binary, dir, withDevice(3))
	if err != nil {
		return err
	}
	defer c.stop()
	spec := &messages.DeploymentSpec{Name: deployed, Path: folder, KvBlocks: new(uint32(kvBlocks)),
		AdapterPages: new(uint32(adapterPages)), MaxAdapters: new(uint32(maxAdapters))}
	if err := c.deploy(ctx, spec, 2); err != nil {
		return err
	}
	if err := c.register(ctx, files); err != nil {
		return err
	}
	if err := c.warm(ctx, deployed); err != nil {
		return err
	}
	load := adapterLoad
	load.Length = m.run
	return c.recordTo(ctx, dir, load.Requests(3))
}

// adaptersOf returns the folders of the adapters of a model, and the bytes of their weights.
func adaptersOf(folder string) (folders []string, sizes []int64, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "adapters", "*", "adapter_model.safetensors"))
	if err != nil || len(files) == 0 {
		return nil, nil, fmt.Errorf("no adapters in %s: %w", folder, err)
	}
	for _, file := range files {
		is, err := os.Stat(file)
		if err != nil {
			return nil, nil, err
		}
		folders, sizes = append(folders, filepath.Dir(file)), append(sizes, is.Size())
	}
	return folders, sizes, nil
}

// register registers the adapters, which have the files of some folders in turn.
func (c *cluster) register(ctx context.Context, folders []string) error {
	for i := range adapterCount {
		answer := &messages.RegisterAdapterResponse{}
		err := c.ask(ctx, "adapters.register", &messages.RegisterAdapterRequest{Adapter: &messages.AdapterSpec{
			Name: adapterLoad.Adapters.At(i), Model: deployed, Path: folders[i%len(folders)],
		}}, answer)
		if err != nil {
			return err
		}
	}
	return nil
}
