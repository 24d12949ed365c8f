package cuda

import (
	"errors"
	"fmt"
)

// Errors that callers distinguish. Unsupported features return errors.ErrUnsupported.
var (
	ErrOutOfMemory   = errors.New("cuda: out of device memory")
	ErrDeviceLost    = errors.New("cuda: device lost")
	ErrUnknownKernel = errors.New("cuda: unknown kernel")
)

// Fault is a failure of a running kernel or copy: a bad address, a bad argument or a broken device.
// It is sticky on its stream, or on the whole device if Lost is set.
type Fault struct {
	// Op is the kernel's name, "copy in", "copy out" or "copy", or the stream if the driver does
	// not report which work failed.
	Op     string
	Reason string
	Code   int    // the driver's code; 0 if there is none
	Name   string // name of the code, such as "CUDA_ERROR_ILLEGAL_ADDRESS"
	// Lost is set if the device accepts no more work from this process. Such a fault is
	// ErrDeviceLost.
	Lost bool
}

func (f *Fault) Error() string {
	s := fmt.Sprintf("cuda: fault in %s: %s", f.Op, f.Reason)
	if f.Code != 0 {
		s += fmt.Sprintf(" (%s, %d)", f.Name, f.Code)
	}
	if f.Lost {
		s += "; the device accepts no more work from this process"
	}
	return s
}

// Is reports whether target is ErrDeviceLost and the fault lost the device.
func (f *Fault) Is(target error) bool { return f.Lost && target == ErrDeviceLost }
