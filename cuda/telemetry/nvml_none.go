//go:build !cgo

package telemetry

import (
	"fmt"

	"troupe/core/health"
)

// Library is NVML, which needs cgo.
type Library struct{}

// GPU is a device of a Library.
type GPU struct{}

// OpenNVML returns ErrNoLibrary.
func OpenNVML(string) (*Library, error) {
	return nil, fmt.Errorf("%w: this binary was built without cgo; build it with CGO_ENABLED=1", ErrNoLibrary)
}

// Versions returns nothing, since no Library exists.
func (*Library) Versions() Versions { return Versions{} }

// GPUs returns ErrNoLibrary, since no Library exists.
func (*Library) GPUs() ([]*GPU, error) { return nil, ErrNoLibrary }

// Facts implements Source.
func (*GPU) Facts() Facts { return Facts{} }

// Health implements Source.
func (*GPU) Health() health.Observation { return health.Observation{} }
