package kernelhost

import (
	"errors"

	"troupe/cuda"
)

// Device returns a software device whose kernels are the CUDA sources. host must be a device of
// package host, whose addresses are valid in this process. Launch runs the kernel before it
// returns, and Info reports t as the type of weights. Everything else behaves as in host.
func Device(l *Library, host cuda.Device, t cuda.DType) cuda.Device {
	return &device{Device: host, library: l, weights: t}
}

type device struct {
	cuda.Device
	library *Library
	weights cuda.DType
}

func (d *device) Info() cuda.Info {
	info := d.Device.Info()
	info.Name, info.Weights = info.Name+", CUDA sources", d.weights
	return info
}

func (d *device) NewStream(name string) (cuda.Stream, error) {
	s, err := d.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	return &stream{Stream: s, library: d.library}, nil
}

// stream runs kernels in the caller, after the work queued before.
type stream struct {
	cuda.Stream
	library *Library
	fault   error // fault of a kernel; sticky
}

func (s *stream) Launch(op cuda.Op) error {
	if err := s.Sync(); err != nil {
		return err
	}
	err := s.library.Run(op)
	if fault := (*cuda.Fault)(nil); errors.As(err, &fault) {
		s.fault = err
		return nil
	}
	return err
}

func (s *stream) Sync() error { return errors.Join(s.fault, s.Stream.Sync()) }
