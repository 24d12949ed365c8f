package cuda

// Ptr is an address in a device's memory. Zero is never a valid address.
type Ptr uint64

// Offset returns the address bytes further on.
func (p Ptr) Offset(bytes int64) Ptr { return p + Ptr(bytes) }

// DType is the type of the elements of an array in device memory.
type DType uint8

// Element types.
const (
	F32 DType = iota
	F16
	BF16
	I32
)

// Bytes returns the size of one element.
func (t DType) Bytes() int64 {
	switch t {
	case F16, BF16:
		return 2
	default:
		return 4
	}
}

func (t DType) String() string { return [...]string{"F32", "F16", "BF16", "I32"}[t] }

// Info describes a device. It does not change while the device is open.
type Info struct {
	Index       int    // position on this node, from 0
	Name        string // "host device (simulated memory, real arithmetic)", "NVIDIA H200"
	UUID        string // stable across restarts of the node
	Simulated   bool   // true for the software device, a fake driver and a simulated device
	Ledger      bool   // memory is only counted, and no kernel runs: a simulated device
	MemoryBytes int64  // total device memory
	// Weights is the preferred type of weights: the one that MatMul multiplies fastest.
	Weights DType
	// StreamBytes is the device memory that a stream allocates for itself at its first MatMul.
	StreamBytes int64
	// Graphs is set if it is faster to launch a graph than its kernels one by one.
	Graphs bool
	// GraphOpBytes is the device memory that an operation in a graph takes, at most; 0: none.
	GraphOpBytes int64
}

// Device is a GPU or the software device. Optional features are separate interfaces, such as
// VirtualMemory: use a type assertion or As.
//
// All methods are safe for concurrent use. Memory lives until Free or Close, even if the component
// that allocated it crashes, so that its successor can adopt it.
type Device interface {
	Info() Info

	// Alloc returns bytes of device memory, aligned to 256 bytes and not zeroed. It returns
	// ErrOutOfMemory if the device has no such range.
	Alloc(bytes int64) (Ptr, error)
	// Free frees memory. Work that uses it must have finished.
	Free(p Ptr) error
	// Memory returns the number of free bytes and the total.
	Memory() (free, total int64)

	// AllocHost returns page-locked host memory, the only host memory that a stream may copy from
	// or to. It is page-aligned.
	AllocHost(bytes int64) (HostMemory, error)

	// NewStream returns an ordered queue of work. Streams run concurrently.
	NewStream(name string) (Stream, error)

	Close() error
}

// HostMemory is page-locked host memory outside the Go heap.
type HostMemory interface {
	Bytes() []byte
	Free() error
}

// Stream runs work in order, asynchronously to the caller. An error in the work (a fault) is
// sticky: Sync and every later call return it. Work may be held back until there is more of it or
// until Sync, Record or Close is called.
//
// A stream is used by one goroutine at a time.
type Stream interface {
	// CopyIn copies src, host memory that must not change until the copy is done.
	CopyIn(dst Ptr, src []byte) error
	// CopyOut fills dst; its content is defined once the copy is done.
	CopyOut(dst []byte, src Ptr) error
	// Copy copies within the device.
	Copy(dst, src Ptr, bytes int64) error
	// Launch runs a kernel. It returns ErrUnknownKernel if the device lacks it.
	Launch(op Op) error
	// Record returns an event that is done when all work queued so far is done.
	Record() (Event, error)
	// Wait makes later work on this stream wait for e, an event of any stream of the device.
	Wait(e Event) error
	// Sync blocks until all work queued so far is done, and returns the first fault.
	Sync() error
	Close() error
}

// Event marks a position in a stream.
type Event interface {
	// Done reports, without blocking, whether the work before the event is done.
	Done() bool
	// Sync blocks until the work before the event is done.
	Sync() error
}

// Op is one kernel launch: a struct of arguments from package kernels, passed by value as the
// kernel's only parameter.
type Op interface {
	// Kernel returns the name of the kernel's entry point.
	Kernel() string
}
