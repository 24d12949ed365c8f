//go:build linux

package driver

import (
	"errors"
	"fmt"
	"sync"

	"troupe/cuda"
)

// Library is an opened and initialised libcuda.so.1. A process never closes it.
type Library struct {
	symbols
	version int // 13000 for CUDA 13.0
	count   int
	blas    *blas  // nil if products use the built-in kernels
	noBLAS  string // why blas is nil
}

// Load opens the library at path; "libcuda.so.1" is the system's.
func Load(path string) (*Library, error) {
	s, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	l := &Library{symbols: s, noBLAS: "off"}
	version, count := out[int32](), out[int32]()
	err = l.call("start the driver", l.Init, 0)
	if fault := (*cuda.Fault)(nil); errors.As(err, &fault) && fault.Code == noDevice {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w; see nvidia-smi", err)
	}
	if err := errors.Join(l.call("query the driver's version", l.DriverVersion, address(version)),
		l.call("count devices", l.DeviceCount, address(count))); err != nil {
		return nil, err
	}
	l.version, l.count = int(*version), int(*count)
	return l, nil
}

// system is the library of this machine, opened on first use.
var system = sync.OnceValues(func() (*Library, error) { return Load("libcuda.so.1") })

// Open opens a device of this machine. blas selects the GEMM backend: AnyBLAS, NoBLAS, or the path
// of a cuBLAS. Closing the device frees everything that it has.
func Open(index int, blas string) (cuda.Device, error) {
	l, err := system()
	if err != nil {
		return nil, err
	}
	if err := l.UseBLAS(blas); err != nil {
		return nil, err
	}
	return l.Open(index, Embedded{})
}

// Count returns the number of devices of this machine, 0 without a driver.
func Count() int {
	if l, err := system(); err == nil {
		return l.Count()
	}
	return 0
}

// Probe lists the devices of this machine without opening them. If there are none, why is the
// reason. An error means that a driver is installed but does not work.
func Probe() (found []cuda.Info, why string, err error) {
	l, err := system()
	if errors.Is(err, errNoLibrary) {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	return l.Probe()
}

// Count returns the number of devices.
func (l *Library) Count() int { return l.count }

// Version returns the newest CUDA version that the driver supports: "CUDA 13.0".
func (l *Library) Version() string {
	return fmt.Sprintf("CUDA %d.%d", l.version/1000, l.version%1000/10)
}

// Probe is the function Probe for one library.
func (l *Library) Probe() (found []cuda.Info, why string, err error) {
	if l.count == 0 {
		return nil, "the NVIDIA driver sees no GPU: see nvidia-smi, CUDA_VISIBLE_DEVICES, and the rights to " +
			"/dev/nvidia*", nil
	}
	for i := range l.count {
		info, _, err := l.describeDevice(i)
		if err != nil {
			return nil, "", fmt.Errorf("GPU %d: %w", i, err)
		}
		found = append(found, info)
	}
	return found, "", nil
}

// call calls a function that needs no context.
func (l *Library) call(op string, fn symbol, args ...uintptr) error {
	if fn.at == 0 {
		return unsupported(fn)
	}
	c := command{fn: fn.at}
	copy(c.args[:], args)
	if _, result := cross([]command{c}); result != success {
		return l.failure(op, result)
	}
	return nil
}
