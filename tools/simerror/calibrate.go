package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"troupe/core/cost"
	"troupe/tools/profiles"
)

const (
	model  = "models/kjv-2m"
	device = "host:1x256MiBx1"
)

// calibrated returns the costs of the model on a device.
func calibrated(ctx context.Context, binary, dir string, length time.Duration) (p cost.Profile, err error) {
	return profiles.Calibrate(ctx, binary, model, device, dir, length)
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
