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

// Loaded describes a loaded lease.
type Loaded struct {
	engine.LoadSpec
	Digests      engine.Digests
	Info         engine.ModelInfo
	KVBlockBytes int64
}

// Store keeps models in the memory of one device, by lease. It survives actor crashes: when a lease
// is opened again, the same weights and the same KV memory are there. It is safe for concurrent
// use.
type Store struct {
	device cuda.Device
	loader engine.Loader
	loads  atomic.Int64

	mu   sync.Mutex
	held map[string]*model
}

// model is a lease that is loaded or loading.
type model struct {
	Loaded
	weights  engine.Weights
	arena    engine.Arena
	memory   *kvMemory
	adapters *AdapterCache // nil: none
	blocks   atomic.Int64  // KVBlocks, readable without the lock
	ready    chan struct{} // closed when loading ended
	err      error         // result of loading
	users    int           // open engines and BlockCopiers
}

// NewStore returns the store of a device.
func NewStore(device cuda.Device, format engine.Loader) *Store {
	return &Store{device: device, loader: format, held: make(map[string]*model)}
}

// Inspect describes a model as it would be on this device.
func (s *Store) Inspect(path string) (engine.ModelInfo, error) {
	return s.loader.Inspect(path, s.device.Info())
}

// Load loads a model and its KV memory. If the lease is loaded, it returns the existing contents.
// If another call is loading it, Load waits for that call. If it fails, it frees what it allocated.
func (s *Store) Load(ctx context.Context, spec engine.LoadSpec) (Loaded, error) {
	m, mine := s.claim(spec.Lease)
	for !mine {
		select {
		case <-m.ready:
		case <-ctx.Done():
			return Loaded{}, ctx.Err()
		}
		if !errors.Is(m.err, context.Canceled) && !errors.Is(m.err, context.DeadlineExceeded) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return m.Loaded, m.err
		}
		m, mine = s.claim(spec.Lease) // the other load was cancelled, but this one was not
	}
	m.err = s.load(ctx, m, spec)
	if m.err != nil {
		s.mu.Lock()
		delete(s.held, spec.Lease)
		s.mu.Unlock()
	}
	close(m.ready)
	return m.Loaded, m.err
}

// claim returns the lease. mine is true if it is new, so that the caller has to load it.
func (s *Store) claim(lease string) (m *model, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, held := s.held[lease]
	if !held {
		m = &model{ready: make(chan struct{})}
		s.held[lease] = m
	}
	return m, !held
}

func (s *Store) load(ctx context.Context, m *model, spec engine.LoadSpec) error {
	if id, ok := s.loader.(engine.DigestCache); ok && spec.Revision != "" {
		if found, _ := id.CachedDigests(spec.Path); found.Revision != "" && found.Revision != spec.Revision {
			return &engine.RevisionMismatch{Path: spec.Path, Want: spec.Revision, Found: found}
		}
	}
	s.loads.Add(1)
	weights, err := s.loader.Load(ctx, s.device, spec.Path)
	if err != nil {
		return err
	}
	if found := weights.Digests(); spec.Revision != "" && found.Revision != spec.Revision {
		return errors.Join(&engine.RevisionMismatch{Path: spec.Path, Want: spec.Revision, Found: found}, weights.Free())
	}
	facts := weights.Info()
	blockBytes := facts.KVTokenBytes * int64(spec.BlockTokens)
	most := max(s.device.Info().MemoryBytes/blockBytes, int64(spec.KVBlocks))
	memory, err := reserveKV(s.device, blockBytes*int64(spec.KVBlocks), blockBytes*most)
	if err != nil {
		return errors.Join(fmt.Errorf("%d KV blocks for %s: %w", spec.KVBlocks, spec.Path, err), weights.Free())
	}
	m.Loaded = Loaded{LoadSpec: spec, Digests: weights.Digests(), Info: facts, KVBlockBytes: blockBytes}
	m.weights = weights
	m.memory = memory
	m.blocks.Store(int64(spec.KVBlocks))
	m.arena = engine.Arena{
		Base: memory.base, Blocks: func() int { return int(m.blocks.Load()) }, BlockTokens: spec.BlockTokens,
		BlockBytes: blockBytes,
	}
	if spec.AdapterPages > 0 {
		if err := s.leaseAdapters(m, spec.AdapterPages); err != nil {
			return errors.Join(err, weights.Free(), memory.free())
		}
	}
	return nil
}

// Resize changes the number of KV blocks of a lease in place, while engines are open. Blocks beyond
// the new number must be unused, and no step may run while it shrinks. It returns the new state. If
// the device has no virtual memory, the error is errors.ErrUnsupported. After any error the size is
// unchanged.
func (s *Store) Resize(lease string, blocks int) (Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.get(lease)
	if err != nil {
		return Loaded{}, err
	}
	if most := s.device.Info().MemoryBytes / m.KVBlockBytes; blocks < 1 || int64(blocks) > most {
		return m.Loaded, fmt.Errorf("lease %s: cannot have %d KV blocks; 1 to %d are possible", lease, blocks, most)
	}
	if err := m.memory.resize(m.KVBlockBytes * int64(blocks)); err != nil {
		return m.Loaded, fmt.Errorf("lease %s, from %d to %d KV blocks: %w", lease, m.KVBlocks, blocks, err)
	}
	m.KVBlocks = blocks
	m.blocks.Store(int64(blocks))
	return m.Loaded, nil
}

// Open returns a new engine for a loaded lease.
func (s *Store) Open(lease string) (engine.Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.get(lease)
	if err != nil {
		return nil, err
	}
	e, err := m.weights.Open(m.arena, m.Limits)
	if err != nil {
		return nil, fmt.Errorf("opening engine of lease %s: %w", lease, err)
	}
	m.users++
	return &countedEngine{Engine: e, store: s, model: m}, nil
}

// get returns a loaded lease. The caller holds the lock.
func (s *Store) get(lease string) (*model, error) {
	m, ok := s.held[lease]
	if ok {
		select {
		case <-m.ready:
			return m, nil
		default:
		}
	}
	return nil, fmt.Errorf("lease %s is not loaded on device %d; load its model first", lease, s.device.Info().Index)
}

// countedEngine counts as a user of its lease until it is closed.
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

// Unload frees a lease and returns the number of bytes freed, or 0 if it is not loaded. It fails
// while an engine or a BlockCopier is open.
func (s *Store) Unload(lease string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.get(lease)
	if err != nil {
		return 0, nil
	}
	if m.users > 0 {
		return 0, fmt.Errorf("lease %s: an engine is still open; stop its replica first", lease)
	}
	delete(s.held, lease)
	bytes := m.Info.WeightBytes + m.KVBlockBytes*int64(m.KVBlocks) + hbm.PageBytes*int64(m.AdapterPages)
	err = errors.Join(m.weights.Free(), m.memory.free())
	if m.adapters != nil {
		err = errors.Join(err, m.adapters.close())
	}
	return bytes, err
}

// Held returns the loaded leases, by name.
func (s *Store) Held() []Loaded {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Loaded
	for lease := range s.held {
		if m, err := s.get(lease); err == nil {
			all = append(all, m.Loaded)
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

// Loads returns how often weights were loaded.
func (s *Store) Loads() int { return int(s.loads.Load()) }
