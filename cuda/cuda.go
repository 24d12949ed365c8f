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

// Bytes is the size of one element.
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
	Simulated   bool   // true for the software device, and for a driver that is not NVIDIA's
	MemoryBytes int64  // total device memory
	// Weights is the type weights are best kept in: what MatMul multiplies fastest.
	Weights DType
	// StreamBytes is the device memory that a stream takes for itself at its first MatMul.
	StreamBytes int64
}

// Device is one GPU, or the software device that stands beside it. What only some devices can do is in interfaces of
// their own, such as VirtualMemory: ask by type assertion, or by As.
//
// All methods are safe for concurrent use. Memory outlives whoever allocated it,
// until Free or Close: that is what lets a crashed replica's successor adopt it.
type Device interface {
	Info() Info

	// Alloc returns bytes of device memory, aligned to 256 bytes and not zeroed.
	// It returns ErrOutOfMemory when the device has no such range.
	Alloc(bytes int64) (Ptr, error)
	// Free gives memory back. Work that still uses it must have finished.
	Free(p Ptr) error
	// Memory returns how many bytes are free, and how many there are.
	Memory() (free, total int64)

	// AllocHost returns page-locked host memory, the only host memory that a
	// stream may copy from or to. It begins where a page does.
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

// Stream runs work in the order in which it was given, asynchronously to the
// caller. An error in the work (a fault) is sticky: it is returned by Sync and by
// every later call. Work may be held back until there is more of it, or until
// somebody waits: by Sync, Record, or Close.
//
// A stream is used by one goroutine at a time.
type Stream interface {
	// CopyIn copies src, host memory that must not change until the copy is done.
	CopyIn(dst Ptr, src []byte) error
	// CopyOut fills dst; its content is defined once the copy is done.
	CopyOut(dst []byte, src Ptr) error
	// Copy copies within the device.
	Copy(dst, src Ptr, bytes int64) error
	// Launch runs a kernel. It returns ErrUnknownKernel for one the device lacks.
	Launch(op Op) error
	// Record returns an event that is done when all work given so far is.
	Record() (Event, error)
	// Wait makes later work on this stream wait for e, from any stream of the device.
	Wait(e Event) error
	// Sync blocks until all work given so far is done, and returns the first fault.
	Sync() error
	Close() error
}

// Event marks a place in a stream.
type Event interface {
	// Done reports, without blocking, whether the work before the event is done.
	Done() bool
	// Sync blocks until it is.
	Sync() error
}

// Op is one kernel launch: a struct of arguments from package kernels. Its fields are
// the kernel's only parameter, passed by value.
type Op interface {
	// Kernel is the name of the kernel's entry point.
	Kernel() string
}
