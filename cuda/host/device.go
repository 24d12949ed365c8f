package host

import (
	"fmt"
	"runtime"
	"sync"

	"troupe/cuda"
)

// Config describes a software device.
type Config struct {
	Index       int
	MemoryBytes int64 // capacity; taken from the system only as it is written to
	Workers     int   // goroutines that share a large kernel; default GOMAXPROCS
	// Inject is asked before each piece of work, by its kernel's name or "copy in", "copy out", "copy". An error
	// becomes a fault. For tests and drills.
	Inject func(op string) error
}

// Open returns a new device.
func Open(cfg Config) (cuda.Device, error) {
	if cfg.MemoryBytes <= 0 {
		return nil, fmt.Errorf("host device %d: %d bytes of memory; give it some", cfg.Index, cfg.MemoryBytes)
	}
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	return &device{Config: cfg, mem: memory{capacity: cfg.MemoryBytes}, pool: newPool(cfg.Workers)}, nil
}

type device struct {
	Config
	mem  memory
	pool *pool

	mu      sync.Mutex
	streams map[*stream]struct{}
}

func (d *device) Info() cuda.Info {
	return cuda.Info{
		Index: d.Index, Name: "host device", UUID: fmt.Sprintf("host-%d", d.Index), Simulated: true,
		MemoryBytes: d.MemoryBytes, Weights: cuda.F32,
	}
}

func (d *device) Alloc(bytes int64) (cuda.Ptr, error) { return d.mem.alloc(bytes) }
func (d *device) Free(p cuda.Ptr) error               { return d.mem.release(p) }
func (d *device) Memory() (free, total int64)         { return d.mem.free(), d.MemoryBytes }

func (d *device) AllocHost(bytes int64) (cuda.HostMemory, error) {
	b, err := mmap(bytes)
	if err != nil {
		return nil, fmt.Errorf("host memory of %d bytes: %w", bytes, err)
	}
	return hostMemory(b[:bytes]), nil
}

// Close ends all streams and gives all memory back.
func (d *device) Close() error {
	d.mu.Lock()
	streams := d.streams
	d.streams = nil
	d.mu.Unlock()
	for s := range streams {
		s.shut()
	}
	d.pool.close()
	return d.mem.releaseAll()
}
