//go:build !linux

package driver

import (
	"errors"
	"fmt"
	"time"

	"troupe/cuda"
)

const noDriver = "GPUs are driven on Linux only"

// What Open can be told of cuBLAS.
const (
	AnyBLAS = "auto"
	NoBLAS  = "off"
)

// Open opens a device of this machine.
func Open(index int, blas string) (cuda.Device, error) {
	return nil, fmt.Errorf("cuda: no GPU %d: %s: %w", index, noDriver, errors.ErrUnsupported)
}

// CrossingCost measures what a command costs its caller.
func CrossingCost() (time.Duration, error) {
	return 0, fmt.Errorf("cuda: %s: %w", noDriver, errors.ErrUnsupported)
}

// Count returns how many devices this machine has.
func Count() int { return 0 }

// Probe says which devices this machine has; where none, why says so in words.
func Probe() (found []cuda.Info, why string, err error) { return nil, noDriver, nil }
