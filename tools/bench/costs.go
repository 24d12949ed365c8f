package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"troupe/core/cost"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/calibrate"
)

// costModel calibrates the shipped model, as troupe calibrate does.
func costModel() (s section, err error) {
	const duration = 90 * time.Second
	s = section{
		title: "The cost model",
		how: "Costs of steps, copies and loads that are fitted to measurements of the shipped model on a software " +
			"device, as by `troupe calibrate --time 90s`. Errors are those of measurements that the fit did not " +
			"see: each fifth of the steps of a grid (prompts of 4 to 512 tokens, up to 64 sequences, contexts of up " +
			"to 1,023 tokens each, and both in one step) is predicted by a fit of the others, and each size of a " +
			"copy by the other sizes. Loads have one size, so their error is how much they differ. Noise is how " +
			"much repeats of the same step differ: the distance of the quartiles over the median. `go run " +
			"./tools/bench -only \"cost model\"` measures this section.",
	}
	scratch, err := os.MkdirTemp("", "calibrate")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(scratch)
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		return s, err
	}
	defer device.Close()
	load, _ := os.ReadFile("/proc/loadavg") // empty where there is none
	profiles, err := calibrate.Run(context.Background(), calibrate.Config{
		Device: device, Models: []string{"models/kjv-2m"}, Scratch: scratch, Time: duration,
		Limits: engine.Limits{StepTokens: 512, MaxSequences: 64}, BlockTokens: 16, On: "the machine of this page",
	})
	if err != nil {
		return s, err
	}
	p := profiles[0]
	add := func(what string, r cost.Residuals) {
		s.rows = append(s.rows, row{what: "error of " + what, figure: r.String()})
	}
	add(fmt.Sprintf("steps (form: %s)", p.Steps.Form), p.Steps.Residuals)
	add("copies from host to device", p.Copies.HostToDevice.Residuals)
	add("copies from device to host", p.Copies.DeviceToHost.Residuals)
	add("reads of the disk", p.Copies.DiskToHost.Residuals)
	add("loads from the folder", p.Loads.Folder.Residuals)
	add("loads from an image on disk", p.Loads.DiskImage.Residuals)
	add("loads from the host cache", p.Loads.HostCache.Residuals)
	fields := strings.Fields(string(load))
	s.rows = append(s.rows, row{
		what: "noise, median and P95", figure: fmt.Sprintf("%.1f %%, %.1f %%", 100*p.Noise.Median, 100*p.Noise.P95),
		aim: fmt.Sprintf("median %.0f %% or less", 100*cost.NoisyAbove), met: yesNo(!p.Noise.Noisy),
	}, row{what: "load average before, over 1 and 5 minutes", figure: strings.Join(fields[:min(2, len(fields))], ", ")})
	return s, nil
}
