//go:build !linux

package driver

import (
	"errors"
	"fmt"
	"time"

	"troupe/cuda"
)

const noDriver = "GPUs are supported on Linux only"

// Values of the argument blas of Open.
const (
	AnyBLAS = "auto"
	NoBLAS  = "off"
)

// Open opens a device of this machine.
func Open(index int, blas string) (cuda.Device, error) {
	return nil, fmt.Errorf("cuda: no GPU %d: %s: %w", index, noDriver, errors.ErrUnsupported)
}

// CrossingCost measures the cost of a command.
func CrossingCost() (time.Duration, error) {
	return 0, fmt.Errorf("cuda: %s: %w", noDriver, errors.ErrUnsupported)
}

// Count returns the number of devices of this machine.
func Count() int { return 0 }

// Probe lists the devices of this machine; if there are none, why is the reason.
func Probe() (found []cuda.Info, why string, err error) { return nil, noDriver, nil }
