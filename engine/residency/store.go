package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/engine"
)

// Loaded is what is there under a lease.
type Loaded struct {
	engine.LoadSpec
	Digests      engine.Digests
	Info         engine.ModelInfo
	KVBlockBytes int64
}

// Store keeps models in one device's memory, by lease. It sits above whatever crashes: who opens a lease again finds the
// same weights and the same KV memory. It is safe for concurrent use.
type Store struct {
	device cuda.Device
	loader engine.Loader
	loads  atomic.Int64

	mu   sync.Mutex
	held map[string]*model
}

// model is a lease, held or on its way.
type model struct {
	Loaded
	weights  engine.Weights
	arena    engine.Arena
	memory   *kvMemory
	adapters *AdapterCache // nil: there are none
	blocks   atomic.Int64  // KVBlocks, for those who do not hold the lock
	ready    chan struct{} // closed when loading has ended
	err      error         // how it ended
	users    int           // engines and Blocks that are open over it
}

// NewStore returns the holder of a device.
func NewStore(device cuda.Device, format engine.Loader) *Store {
	return &Store{device: device, loader: format, held: make(map[string]*model)}
}

// Inspect describes a model as it would be on this device.
func (h *Store) Inspect(path string) (engine.ModelInfo, error) {
	return h.loader.Inspect(path, h.device.Info())
}

// Load puts a model and its KV memory on the device. Where the lease is held it returns what is there; where it is on its way,
// it waits. A load that fails leaves nothing behind.
func (h *Store) Load(ctx context.Context, spec engine.LoadSpec) (Loaded, error) {
	l, mine := h.claim(spec.Lease)
	for !mine {
		select {
		case <-l.ready:
		case <-ctx.Done():
			return Loaded{}, ctx.Err()
		}
		if !errors.Is(l.err, context.Canceled) && !errors.Is(l.err, context.DeadlineExceeded) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return l.Loaded, l.err
		}
		l, mine = h.claim(spec.Lease) // who loaded it was told to end, and nobody told this one
	}
	l.err = h.load(ctx, l, spec)
	if l.err != nil {
		h.mu.Lock()
		delete(h.held, spec.Lease)
		h.mu.Unlock()
	}
	close(l.ready)
	return l.Loaded, l.err
}

// claim returns what is held by lease, or a new one that the caller has to load.
func (h *Store) claim(lease string) (l *model, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, held := h.held[lease]
	if !held {
		l = &model{ready: make(chan struct{})}
		h.held[lease] = l
	}
	return l, !held
}

func (h *Store) load(ctx context.Context, l *model, spec engine.LoadSpec) error {
	if id, ok := h.loader.(engine.DigestCache); ok && spec.Revision != "" {
		if found, _ := id.CachedDigests(spec.Path); found.Revision != "" && found.Revision != spec.Revision {
			return &engine.RevisionMismatch{Path: spec.Path, Want: spec.Revision, Found: found}
		}
	}
	h.loads.Add(1)
	weights, err := h.loader.Load(ctx, h.device, spec.Path)
	if err != nil {
		return err
	}
	if found := weights.Digests(); spec.Revision != "" && found.Revision != spec.Revision {
		return errors.Join(&engine.RevisionMismatch{Path: spec.Path, Want: spec.Revision, Found: found}, weights.Free())
	}
	facts := weights.Info()
	blockBytes := facts.KVTokenBytes * int64(spec.BlockTokens)
	most := max(h.device.Info().MemoryBytes/blockBytes, int64(spec.KVBlocks))
	memory, err := reserveKV(h.device, blockBytes*int64(spec.KVBlocks), blockBytes*most)
	if err != nil {
		return errors.Join(fmt.Errorf("%d KV blocks for %s: %w", spec.KVBlocks, spec.Path, err), weights.Free())
	}
	l.Loaded = Loaded{LoadSpec: spec, Digests: weights.Digests(), Info: facts, KVBlockBytes: blockBytes}
	l.weights = weights
	l.memory = memory
	l.blocks.Store(int64(spec.KVBlocks))
	l.arena = engine.Arena{
		Base: memory.base, Blocks: func() int { return int(l.blocks.Load()) }, BlockTokens: spec.BlockTokens,
		BlockBytes: blockBytes,
	}
	if spec.AdapterPages > 0 {
		if err := h.leaseAdapters(l, spec.AdapterPages); err != nil {
			return errors.Join(err, weights.Free(), memory.free())
		}
	}
	return nil
}

// Resize makes the KV memory of a lease so many blocks large, in place, under engines that are open over it. Blocks beyond that must
// be used by nobody any more, and while it shrinks no step may run. It returns what is there now; errors.ErrUnsupported where the device has no virtual memory, and then, as
// with every error, nothing has changed.
func (h *Store) Resize(lease string, blocks int) (Loaded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := h.get(lease)
	if err != nil {
		return Loaded{}, err
	}
	if most := h.device.Info().MemoryBytes / l.KVBlockBytes; blocks < 1 || int64(blocks) > most {
		return l.Loaded, fmt.Errorf("lease %s: %d KV blocks asked for; it can have 1 to %d", lease, blocks, most)
	}
	if err := l.memory.resize(l.KVBlockBytes * int64(blocks)); err != nil {
		return l.Loaded, fmt.Errorf("lease %s, from %d to %d KV blocks: %w", lease, l.KVBlocks, blocks, err)
	}
	l.KVBlocks = blocks
	l.blocks.Store(int64(blocks))
	return l.Loaded, nil
}

// Open returns a fresh engine over a lease that is held.
func (h *Store) Open(lease string) (engine.Engine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := h.get(lease)
	if err != nil {
		return nil, err
	}
	e, err := l.weights.Open(l.arena, l.Limits)
	if err != nil {
		return nil, fmt.Errorf("engine over lease %s: %w", lease, err)
	}
	l.users++
	return &countedEngine{Engine: e, store: h, model: l}, nil
}

// find returns a lease that is held. The lock is held.
func (h *Store) get(lease string) (*model, error) {
	l, ok := h.held[lease]
	if ok {
		select {
		case <-l.ready:
			return l, nil
		default:
		}
	}
	return nil, fmt.Errorf("lease %s is not held on device %d; load its model first", lease, h.device.Info().Index)
}

// opened is an engine that the holder counts until it is closed.
type countedEngine struct {
	engine.Engine
	store *Store
	model *model
	once  sync.Once
}

func (o *countedEngine) Close() error {
	o.once.Do(func() {
		o.store.mu.Lock()
		o.model.users--
		o.store.mu.Unlock()
	})
	return o.Engine.Close()
}

// Unload frees a lease and returns how many bytes that gave back; 0 where it is not held. It refuses while an engine or
// Blocks are open over it.
func (h *Store) Unload(lease string) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := h.get(lease)
	if err != nil {
		return 0, nil
	}
	if l.users > 0 {
		return 0, fmt.Errorf("lease %s: an engine is still open over it; stop its replica first", lease)
	}
	delete(h.held, lease)
	bytes := l.Info.WeightBytes + l.KVBlockBytes*int64(l.KVBlocks) + hbm.PageBytes*int64(l.AdapterPages)
	err = errors.Join(l.weights.Free(), l.memory.free())
	if l.adapters != nil {
		err = errors.Join(err, l.adapters.close())
	}
	return bytes, err
}

// Held returns what is on the device, by lease.
func (h *Store) Held() []Loaded {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Loaded
	for lease := range h.held {
		if l, err := h.get(lease); err == nil {
			all = append(all, l.Loaded)
		}
	}
	slices.SortFunc(all, func(a, b Loaded) int {
		if a.Lease < b.Lease {
			return -1
		}
		return 1
	})
	return all
}

// Loads is how often weights were read.
func (h *Store) Loads() int { return int(h.loads.Load()) }
