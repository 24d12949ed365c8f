package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"troupe/core/cost"
	"troupe/internal/costfile"
)

const (
	model  = "models/kjv-2m"
	device = "host:1x256MiB"
	oneCPU = "GOMAXPROCS=1" // of calibrations and nodes: a device has one core
)

// command runs a command. Its output is in the error.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), oneCPU)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// calibrated returns the costs of the model on a device.
func calibrated(ctx context.Context, binary, dir string, length time.Duration) (p cost.Profile, err error) {
	err = command(ctx, binary, "calibrate", "--model", model, "--devices", device, "--time", length.String(),
		"--out", dir)
	if err != nil {
		return p, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != 1 {
		return p, fmt.Errorf("%d profiles in %s: %w", len(files), dir, err)
	}
	return costfile.Read(files[0])
}

// calibratedBeside returns the costs while another device is being calibrated too.
func calibratedBeside(ctx context.Context, binary, dir string, length time.Duration) (cost.Profile, error) {
	other := make(chan error)
	go func() {
		_, err := calibrated(ctx, binary, filepath.Join(dir, "other"), length)
		other <- err
	}()
	p, err := calibrated(ctx, binary, filepath.Join(dir, "beside"), length)
	return p, errors.Join(err, <-other)
}

// loadAverage returns the load average of the machine.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
