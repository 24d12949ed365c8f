package host

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"troupe/cuda"
)

// Config describes a software device.
type Config struct {
	Index       int
	Name        string // default "host device"
	MemoryBytes int64  // capacity; allocated by the system only when written
	Workers     int    // goroutines that share a large kernel; default GOMAXPROCS
	// Inject is called before each piece of work with the kernel's name or "copy in", "copy out",
	// "copy". An error becomes a fault; cuda.ErrDeviceLost stays what it is. For tests and drills.
	Inject func(op string) error
}

// Open returns a new device.
func Open(cfg Config) (cuda.Device, error) {
	if cfg.MemoryBytes <= 0 {
		return nil, fmt.Errorf("host device %d: %d bytes of memory; set a positive size", cfg.Index, cfg.MemoryBytes)
	}
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	if cfg.Name == "" {
		cfg.Name = "host device"
	}
	return &device{
		Config: cfg, pool: newPool(cfg.Workers), streams: make(map[*stream]struct{}),
		mem: memory{
			capacity: cfg.MemoryBytes,
		}, hostMem: memory{capacity: math.MaxInt64}, virtual: virtual{ranges: make(map[cuda.Ptr]int64)},
	}, nil
}

type device struct {
	Config
	mem, hostMem memory
	virtual      virtual
	pool         *pool
	// busy is held for reading by work, and for writing to free memory: memory is not freed while
	// work uses it.
	busy sync.RWMutex

	mu      sync.Mutex
	streams map[*stream]struct{} // nil once closed
	// partitions are the open partitions.
	partitions []*partition
}

func (d *device) Info() cuda.Info {
	return cuda.Info{
		Index: d.Index, Name: d.Name, UUID: fmt.Sprintf("host-%d", d.Index), Simulated: true,
		MemoryBytes: d.MemoryBytes, Weights: cuda.F32,
	}
}

func (d *device) Alloc(bytes int64) (cuda.Ptr, error) { return d.mem.alloc(bytes) }
func (d *device) Memory() (free, total int64)         { return d.mem.free(), d.MemoryBytes }

// Free waits for running work but not for queued work, which faults when it uses the memory.
func (d *device) Free(p cuda.Ptr) error {
	d.busy.Lock()
	defer d.busy.Unlock()
	return d.mem.release(p)
}

func (d *device) AllocHost(bytes int64) (cuda.HostMemory, error) {
	p, err := d.hostMem.alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("host memory: %w", err)
	}
	b := d.hostMem.Bytes(p, bytes)
	adviseHugePages(b)
	return &hostMemory{d, p, b}, nil
}

// Locked implements cuda.HostLocks.
func (d *device) Locked(host []byte) bool {
	_, ok := d.hostMem.find(address(host), int64(len(host)))
	return ok
}

// hostMemory needs no page lock, since a goroutine does the copies.
type hostMemory struct {
	dev   *device
	at    cuda.Ptr
	bytes []byte
}

func (h *hostMemory) Bytes() []byte { return h.bytes }

func (h *hostMemory) Free() error {
	h.dev.busy.Lock()
	defer h.dev.busy.Unlock()
	return h.dev.hostMem.release(h.at)
}

// Close finishes the work of all streams, closes them and frees all memory.
func (d *device) Close() error {
	d.mu.Lock()
	streams, partitions := d.streams, slices.Clone(d.partitions)
	d.streams = nil
	d.mu.Unlock()
	if streams == nil {
		return nil
	}
	for _, p := range partitions {
		_ = p.Close() // fails only if its owner has just closed it
	}
	for s := range streams {
		s.shut()
	}
	d.pool.close()
	return errors.Join(d.mem.releaseAll(), d.hostMem.releaseAll(), d.virtual.close())
}
