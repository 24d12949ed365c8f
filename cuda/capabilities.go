package cuda

import (
	"errors"
	"fmt"
	"reflect"
)

// As returns d, a Device or a Stream, as a capability interface: As[VirtualMemory](device). If d
// lacks it, the error is errors.ErrUnsupported.
//
// A capability describes what a driver implements. A single device may still lack it; then its
// methods return errors.ErrUnsupported.
func As[Capability any](d any) (Capability, error) {
	c, ok := d.(Capability)
	if !ok {
		return c, fmt.Errorf("cuda: %T is no %v: %w", d, reflect.TypeFor[Capability](), errors.ErrUnsupported)
	}
	return c, nil
}

// Properties describe a device for display and planning. Zero values are unknown.
type Properties struct {
	Driver          string // driver version: "CUDA 13.0"
	PCI             string // "0000:17:00.0"
	Major, Minor    int    // compute capability
	Multiprocessors int
	SharedBytes     int64 // maximum shared memory of a block
	L2Bytes         int64
	CopyEngines     int
	GEMMBackend     string // GEMM backend: "cuBLAS 12.4.5", or "own kernels: " and the reason
}

// Describer is a device that reports its Properties.
type Describer interface{ Properties() Properties }

// Reopener is a device that can recover from a loss without a new process.
type Reopener interface {
	// Reopen discards the state of a lost device and tries to make it usable. Nothing may use the
	// device meanwhile. Streams, device memory and everything else created before are gone; host
	// memory stays. If the device is not lost, Reopen has no effect.
	Reopen() error
}

// VirtualMemory is a device that manages addresses and physical memory separately, so that an array
// can grow and shrink in place. All sizes and addresses are multiples of Granularity.
type VirtualMemory interface {
	Granularity() int64
	// Reserve reserves addresses without memory.
	Reserve(bytes int64) (Ptr, error)
	// Unreserve releases a complete range of Reserve. Nothing may be mapped in it.
	Unreserve(p Ptr) error
	// CreatePhysical returns memory without an address, or ErrOutOfMemory.
	CreatePhysical(bytes int64) (Physical, error)
	// Map maps all of m at reserved addresses, readable and writable by this device. Memory may be
	// mapped at several addresses.
	Map(at Ptr, m Physical) error
	// Unmap removes complete mappings of Map. Work that uses them must have finished.
	Unmap(at Ptr, bytes int64) error
}

// Physical is device memory without an address.
type Physical interface {
	Bytes() int64
	// Release frees the memory once it is mapped nowhere.
	Release() error
}

// HostLocks is a device that reports which host memory its streams can copy directly.
type HostLocks interface {
	// Locked reports whether host is page-locked for this device, so that a stream can copy it
	// directly.
	Locked(host []byte) bool
}

// HostSharer is a device whose streams can also copy host memory that another device of the same
// driver has page-locked.
type HostSharer interface {
	// ShareHost lets the streams of this device copy memory that another device allocated, until
	// release is called. The memory must not be freed before, and no copy may use it afterwards.
	ShareHost(memory HostMemory) (release func(), err error)
}

// BatchCopier is a stream that accepts many copies in one call.
type BatchCopier interface {
	// CopyBatch queues all copies, with the same result as separate CopyIn, CopyOut and Copy calls.
	CopyBatch(copies []Transfer) error
}

// Transfer is one copy of a batch: within the device, or from or to host memory.
type Transfer struct {
	Dst, Src Ptr    // 0 for the side that is Host
	Host     []byte // nil for a copy within the device
	Bytes    int64  // length of a copy within the device
}

// Capturer is a stream that can record work instead of running it.
type Capturer interface {
	// Capture calls give, which queues work on the stream, and returns that work as a Graph. The
	// graph uses host memory as it is at each launch, and arguments as they are during Capture.
	// Sync and Wait must not be called in give.
	Capture(give func() error) (Graph, error)
}

// Graph is recorded work that can be launched repeatedly.
type Graph interface {
	// Launch queues the work on a stream of the device on which it was captured.
	Launch(s Stream) error
	Close() error
}

// Peers is a device that can access the memory of other devices.
type Peers interface {
	// Reaches reports whether this device can access the other's memory without going through the
	// host.
	Reaches(other Device) bool
	// EnablePeer enables that access. Enabling it twice is not an error.
	EnablePeer(other Device) error
}

// PeerCopier is a stream that copies from device to device.
type PeerCopier interface {
	// CopyPeer copies from another device of the same driver to the stream's own device, whether or
	// not it is an enabled peer.
	CopyPeer(dst Ptr, from Device, src Ptr, bytes int64) error
}

// Partitioner is a device whose multiprocessors can be partitioned.
type Partitioner interface {
	// Partition returns one partition per share, each with at least that many multiprocessors and
	// disjoint from the others. The device's other streams still use all multiprocessors.
	Partition(shares ...int) ([]Partition, error)
}

// Partition is a subset of a device's multiprocessors. It shares the device's memory and kernels.
type Partition interface {
	Multiprocessors() int
	NewStream(name string) (Stream, error)
	// Close closes its streams first.
	Close() error
}

// SharedHandle identifies device memory to other processes of this machine.
type SharedHandle [64]byte

// Sharer is a device whose memory can be shared between processes.
type Sharer interface {
	// Share returns a handle of memory of Alloc.
	Share(p Ptr) (SharedHandle, error)
	// OpenShared maps the memory of another process, which has the given length and must not be
	// used after its owner has freed it.
	OpenShared(h SharedHandle, bytes int64) (Ptr, error)
	CloseShared(p Ptr) error
}
