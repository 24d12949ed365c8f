package cuda

import (
	"errors"
	"fmt"
	"reflect"
)

// As returns d, a Device or a Stream, as something that it can be beyond that: As[VirtualMemory](device). The error is
// errors.ErrUnsupported.
//
// A capability says what a driver knows how to do. One device of it may still lack it, and then its methods return
// errors.ErrUnsupported.
func As[Capability any](d any) (Capability, error) {
	c, ok := d.(Capability)
	if !ok {
		return c, fmt.Errorf("cuda: %T is no %v: %w", d, reflect.TypeFor[Capability](), errors.ErrUnsupported)
	}
	return c, nil
}

// Properties are facts of a device for people and for planning; a zero is one that the device does not tell.
type Properties struct {
	Driver          string // its version: "CUDA 13.0"
	PCI             string // "0000:17:00.0"
	Major, Minor    int    // compute capability
	Multiprocessors int
	SharedBytes     int64 // the most shared memory that a block can have
	L2Bytes         int64
	CopyEngines     int
	Products        string // who multiplies matrices: "cuBLAS 12.4.5", "own kernels: " and why
}

// Describer is a device that tells its Properties.
type Describer interface{ Properties() Properties }

// Reopener is a device that may work again after it was lost, without a new process.
type Reopener interface {
	// Reopen gives up what is left on a lost device, which nobody may use any more, and tries to make it usable. Streams, memory and
	// everything else that was made before are gone; host memory stays. Of a device that is not lost it takes nothing.
	Reopen() error
}

// VirtualMemory is a device whose addresses and the memory behind them are had apart, so that an array can grow and
// shrink in place. All sizes and addresses are multiples of Granularity.
type VirtualMemory interface {
	Granularity() int64
	// Reserve returns addresses with nothing behind them.
	Reserve(bytes int64) (Ptr, error)
	// Unreserve gives a whole range of Reserve back. Nothing may be mapped in it.
	Unreserve(p Ptr) error
	// CreatePhysical returns memory without an address, or ErrOutOfMemory.
	CreatePhysical(bytes int64) (Physical, error)
	// Map puts all of m behind reserved addresses, for this device to read and to write. Memory may be at several
	// addresses at once.
	Map(at Ptr, m Physical) error
	// Unmap takes away what whole calls of Map put there. Work that uses it must have finished.
	Unmap(at Ptr, bytes int64) error
}

// Physical is device memory without an address.
type Physical interface {
	Bytes() int64
	// Release gives the memory back, as soon as it is mapped nowhere.
	Release() error
}

// HostLocks is a device that tells which host memory its streams may copy from and to.
type HostLocks interface {
	// Locked reports whether host is page-locked for this device, so that a stream needs no detour.
	Locked(host []byte) bool
}

// BatchCopier is a stream that takes many copies in one call.
type BatchCopier interface {
	// CopyBatch gives all copies, as CopyIn, CopyOut and Copy would one by one.
	CopyBatch(copies []Transfer) error
}

// Transfer is one copy of a batch: within the device, or from or to host memory.
type Transfer struct {
	Dst, Src Ptr    // 0 for the side that Host is
	Host     []byte // nil for a copy within the device
	Bytes    int64  // of a copy within the device
}

// Capturer is a stream that can note work down instead of doing it.
type Capturer interface {
	// Capture calls give, which gives work to the stream, and returns that work. Host memory and arguments are taken as
	// they are when the graph runs, and as they are now, respectively. Sync and Wait must not be called meanwhile.
	Capture(give func() error) (Graph, error)
}

// Graph is work that is given as a whole, again and again.
type Graph interface {
	// Launch gives the work to a stream of the device on which it was captured.
	Launch(s Stream) error
	Close() error
}

// Peers is a device that can reach the memory of others.
type Peers interface {
	// Reaches reports whether work of this device can read and write the other's memory without the host between.
	Reaches(other Device) bool
	// EnablePeer lets it. Enabling twice is no error.
	EnablePeer(other Device) error
}

// PeerCopier is a stream that copies from device to device.
type PeerCopier interface {
	// CopyPeer copies from another device of the same driver to the stream's own, enabled as a peer or not.
	CopyPeer(dst Ptr, from Device, src Ptr, bytes int64) error
}

// Partitioner is a device whose multiprocessors can be shared out.
type Partitioner interface {
	// Partition makes one partition for each share, with that many multiprocessors or some more, disjoint from each
	// other. The device's other streams still use all of them.
	Partition(shares ...int) ([]Partition, error)
}

// Partition is some of a device's multiprocessors. It has the device's memory and kernels.
type Partition interface {
	Multiprocessors() int
	NewStream(name string) (Stream, error)
	// Close ends its streams first.
	Close() error
}

// SharedHandle names device memory to other processes of this machine.
type SharedHandle [64]byte

// Sharer is a device whose memory can be shared between processes.
type Sharer interface {
	// Share names memory of Alloc.
	Share(p Ptr) (SharedHandle, error)
	// OpenShared returns where the memory of another process is in this one. It is bytes long and must not outlive its owner's.
	OpenShared(h SharedHandle, bytes int64) (Ptr, error)
	CloseShared(p Ptr) error
}
