package cuda

import (
	"errors"
	"fmt"
)

// Errors that callers branch on. What a device cannot do is errors.ErrUnsupported.
var (
	ErrOutOfMemory   = errors.New("cuda: out of device memory")
	ErrDeviceLost    = errors.New("cuda: device lost")
	ErrUnknownKernel = errors.New("cuda: unknown kernel")
)

// Fault is a kernel or a copy that failed while it ran: a bad address, a bad argument, a broken device. It is sticky on
// its stream, or on its whole device where Lost says so.
type Fault struct {
	// Op is a kernel's name, "copy in", "copy out" or "copy"; or the stream, where the driver cannot tell which of its
	// work it was.
	Op     string
	Reason string
	Code   int    // the driver's; 0 where there is none
	Name   string // of the code, such as "CUDA_ERROR_ILLEGAL_ADDRESS"
	// Lost is true where the device takes no more work from this process. Such a fault is ErrDeviceLost.
	Lost bool
}

func (f *Fault) Error() string {
	s := fmt.Sprintf("cuda: fault in %s: %s", f.Op, f.Reason)
	if f.Code != 0 {
		s += fmt.Sprintf(" (%s, %d)", f.Name, f.Code)
	}
	if f.Lost {
		s += "; the device takes no more work from this process"
	}
	return s
}

// Is makes a fault that lost the device ErrDeviceLost.
func (f *Fault) Is(target error) bool { return f.Lost && target == ErrDeviceLost }
