//go:build cgo

package telemetry

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Library is a loaded NVML. It is safe for concurrent use.
type Library struct{ nvml nvml.Interface }

// OpenNVML loads a library, libnvidia-ml.so.1 if path is empty. Call it only once per process; see
// the package comment.
func OpenNVML(path string) (*Library, error) {
	lib := nvml.New()
	if path != "" {
		lib = nvml.New(nvml.WithLibraryPath(path))
	}
	switch r := lib.Init(); r {
	case nvml.SUCCESS:
		return &Library{lib}, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf(
			"%w: libnvidia-ml.so.1 is not installed; install NVIDIA's driver, or mount its libraries into the "+
				"container",
			ErrNoLibrary,
		)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("NVML: the driver is not loaded (%w); load it: modprobe nvidia", r)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, fmt.Errorf(
			"NVML: library and loaded driver have different versions (%w); restart the machine or reload the driver",
			r,
		)
	case nvml.ERROR_NO_PERMISSION:
		return nil, fmt.Errorf(
			"NVML: no permission to use the driver (%w); allow this user to read and write /dev/nvidiactl and "+
				"/dev/nvidia*",
			r,
		)
	default:
		return nil, fmt.Errorf("start NVML: %w", r)
	}
}

// ask calls a function unless the library lacks one of its symbols, which would end the process.
func (l *Library) ask(call func() nvml.Return, symbols ...string) nvml.Return {
	for _, s := range symbols {
		if l.nvml.Extensions().LookupSymbol(s) == nil {
			return call()
		}
	}
	return nvml.ERROR_FUNCTION_NOT_FOUND
}

// Versions returns the versions that the library reports; unknown ones are empty.
func (l *Library) Versions() (v Versions) {
	l.ask(
		func() (r nvml.Return) { v.Driver, r = l.nvml.SystemGetDriverVersion(); return r },
		"nvmlSystemGetDriverVersion",
	)
	l.ask(func() (r nvml.Return) { v.NVML, r = l.nvml.SystemGetNVMLVersion(); return r }, "nvmlSystemGetNVMLVersion")
	number, r := 0, nvml.SUCCESS
	r = l.ask(
		func() (r nvml.Return) { number, r = l.nvml.SystemGetCudaDriverVersion(); return r },
		"nvmlSystemGetCudaDriverVersion",
	)
	if r == nvml.SUCCESS {
		v.CUDA = fmt.Sprintf("%d.%d", number/1000, number%1000/10)
	}
	return v
}

// GPUs returns the devices that this process may use. A device that does not report even its name
// is included, and its Health has the reason.
func (l *Library) GPUs() ([]*GPU, error) {
	count, r := 0, nvml.SUCCESS
	r = l.ask(
		func() (r nvml.Return) { count, r = l.nvml.DeviceGetCount(); return r },
		"nvmlDeviceGetCount_v2",
		"nvmlDeviceGetCount",
	)
	if r != nvml.SUCCESS {
		return nil, fmt.Errorf("NVML: number of devices: %w", r)
	}
	var all []*GPU
	for i := range count {
		g := &GPU{lib: l}
		r := l.ask(func() (r nvml.Return) { g.device, r = l.nvml.DeviceGetHandleByIndex(i); return r },
			"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
		if r != nvml.SUCCESS {
			return nil, fmt.Errorf("NVML: device %d: %w", i, r)
		}
		g.readFacts()
		g.subscribe()
		all = append(all, g)
	}
	for _, g := range all {
		g.facts.Near = g.neighbours(all)
	}
	return all, nil
}
