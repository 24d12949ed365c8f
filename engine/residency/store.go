package residency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"troupe/core/hbm"
	core "troupe/core/residency"
	"troupe/core/utilization"
	"troupe/core/verify"
	"troupe/cuda"
	"troupe/engine"
)

// Loaded describes a lease.
type Loaded struct {
	engine.LoadSpec
	Copy         uint64 // of its weights
	Handle       string
	Digests      engine.Digests
	Info         engine.ModelInfo
	KVBlockBytes int64
	AdapterMin   int           // of AdapterPages, those that always stay
	From         Origin        // of its weights
	Canary       verify.Record // of its weights; without tokens: none has run
}

// Store keeps weights in the memory of one device, by the number of the copy, and KV memory, by lease.
// It survives actor crashes: when a lease is opened again, the same weights and the same KV memory
// are there. It is safe for concurrent use.
type Store struct {
	device cuda.Device
	loader engine.Loader
	images *HostCache    // nil: none
	disk   *DiskImages   // nil: none
	others OtherNodes    // nil: none
	peers  Devices       // nil: none
	speeds *Speeds       // of sources
	loads  atomic.Int64  // of weights
	own    atomic.Uint64 // copies of Load

	canaries *Canaries // nil: weights are not verified
	name     string    // of the device: "gpu-0"

	mu      sync.Mutex
	copies  map[uint64]*copied
	loading []*weightLoad
	held    map[string]*model

	readers     map[string]*reader // of loads of other devices and nodes
	readerEnded func()             // nil: not called
}

// model is a lease.
type model struct {
	Loaded
	copy     *copied
	arena    engine.Arena
	memory   *kvMemory
	adapters *AdapterCache // nil: none
	blocks   atomic.Int64  // KVBlocks, readable without the lock
	users    int           // open engines and BlockCopiers
}

// NewStore returns the store of a device.
func NewStore(device cuda.Device, format engine.Loader) *Store {
	return &Store{
		device: device, loader: format, copies: make(map[uint64]*copied), held: make(map[string]*model),
		readers: make(map[string]*reader),
		speeds:  &Speeds{},
	}
}

// UseImages lets the store describe models by images of a host cache.
func (s *Store) UseImages(images *HostCache) { s.images = images }

// UseDiskImages lets the store load weights from images on a disk.
func (s *Store) UseDiskImages(images *DiskImages) { s.disk = images }

// UseOtherNodes lets the store load weights from images of other nodes.
func (s *Store) UseOtherNodes(others OtherNodes) { s.others = others }

// UseDevices lets the store load weights from other devices of the node.
func (s *Store) UseDevices(devices Devices) { s.peers = devices }

// ShareSpeeds lets stores of one node share what they have measured. The device has a name there.
func (s *Store) ShareSpeeds(speeds *Speeds, device string) { s.speeds, s.name = speeds, device }

// VerifyBy lets the store verify weights by the records of a node. The name is that of the device.
func (s *Store) VerifyBy(canaries *Canaries, name string) { s.canaries, s.name = canaries, name }

// title names the device.
func (s *Store) title() string { return s.canaries.cfg.Node + "/" + s.name }

// Images returns the host cache; nil if there is none.
func (s *Store) Images() *HostCache { return s.images }

// Lease leases KV memory, and memory for adapters, to a replica that uses a copy. The handle opens
// the lease. If it fails, it frees what it allocated.
func (s *Store) Lease(spec engine.LoadSpec, copy uint64, handle string) (Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.copies[copy]
	if !ok {
		return Loaded{}, fmt.Errorf("lease %s: weights %d are not on device %d", spec.Lease, copy,
			s.device.Info().Index)
	}
	if _, ok := s.held[spec.Lease]; ok {
		return Loaded{}, fmt.Errorf("lease %s exists on device %d; unload it first", spec.Lease, s.device.Info().Index)
	}
	m, err := s.lease(spec, c)
	if err != nil {
		return Loaded{}, err
	}
	m.Handle = handle
	s.held[spec.Lease] = m
	c.leases++
	return m.Loaded, nil
}

func (s *Store) lease(spec engine.LoadSpec, c *copied) (*model, error) {
	m, facts := &model{copy: c}, c.Info()
	blockBytes := facts.KVTokenBytes * int64(spec.BlockTokens)
	most := max(s.device.Info().MemoryBytes/blockBytes, int64(spec.KVBlocks))
	memory, err := reserveKV(s.device, blockBytes*int64(spec.KVBlocks), blockBytes*most)
	if err != nil {
		return nil, fmt.Errorf("%d KV blocks for %s: %w", spec.KVBlocks, spec.Path, err)
	}
	m.Loaded = Loaded{LoadSpec: spec, Digests: c.Digests(), Info: facts, KVBlockBytes: blockBytes, Copy: c.number,
		From: c.from}
	if s.canaries != nil {
		m.Canary, _ = s.canaries.Find(s.CanaryKey(c))
	}
	m.memory = memory
	m.blocks.Store(int64(spec.KVBlocks))
	m.arena = engine.Arena{
		Base: memory.base, Blocks: func() int { return int(m.blocks.Load()) }, BlockTokens: spec.BlockTokens,
		BlockBytes: blockBytes, MaxBlocks: int(most),
	}
	if memory.vm == nil {
		m.arena.MaxBlocks = spec.KVBlocks
	}
	if spec.AdapterPages > 0 {
		if err := s.leaseAdapters(m, spec.AdapterPages, spec.AdapterPages); err != nil {
			return nil, errors.Join(err, memory.free())
		}
	}
	return m, nil
}

// ownCopies is the number of the first copy that Load uses.
const ownCopies = 1 << 63

// Load loads weights for one lease alone and leases KV memory, for a caller that manages the device
// by itself. The lease is opened by its name, and its weights are freed with it. If the lease is
// there, it returns what it holds.
func (s *Store) Load(ctx context.Context, spec engine.LoadSpec) (Loaded, error) {
	s.mu.Lock()
	m, there := s.held[spec.Lease]
	s.mu.Unlock()
	if there {
		return m.Loaded, nil
	}
	number := ownCopies + s.own.Add(1)
	source := core.Source{Path: spec.Path, Revision: spec.Revision}
	if _, err := s.LoadWeights(ctx, number, source, ""); err != nil {
		return Loaded{}, err
	}
	loaded, err := s.Lease(spec, number, spec.Lease)
	if err != nil {
		return Loaded{}, errors.Join(err, s.FreeWeights(number))
	}
	return loaded, nil
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

// Open returns a new engine for the lease of a handle.
func (s *Store) Open(handle string) (engine.Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.byHandle(handle)
	if err != nil {
		return nil, err
	}
	e, err := m.copy.Open(m.arena, m.Limits)
	if err != nil {
		return nil, fmt.Errorf("opening engine of lease %s: %w", m.Lease, err)
	}
	m.users++
	return &countedEngine{Engine: e, store: s, model: m}, nil
}

// get returns a lease. The caller holds the lock.
func (s *Store) get(lease string) (*model, error) {
	if m, ok := s.held[lease]; ok {
		return m, nil
	}
	return nil, fmt.Errorf("lease %s is not loaded on device %d; load its model first", lease, s.device.Info().Index)
}

// byHandle returns the lease of a handle. The caller holds the lock.
func (s *Store) byHandle(handle string) (*model, error) {
	for _, m := range s.held {
		if m.Handle == handle && handle != "" {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no lease on device %d has this handle; request the model again", s.device.Info().Index)
}

// countedEngine counts as a user of its lease until it is closed.
type countedEngine struct {
	engine.Engine
	store *Store
	model *model
	once  sync.Once
}

// CaptureGraphs implements engine.GraphEngine, if the engine does.
func (o *countedEngine) CaptureGraphs(ctx context.Context) (engine.Graphs, error) {
	return engine.CaptureGraphs(ctx, o.Engine)
}

// Work implements engine.WorkCounter, if the engine does.
func (o *countedEngine) Work(batch []engine.Sequence) utilization.Work {
	return engine.WorkOf(o.Engine, batch)
}

func (o *countedEngine) Close() error {
	o.once.Do(func() {
		o.store.mu.Lock()
		o.model.users--
		o.store.mu.Unlock()
	})
	return o.Engine.Close()
}

// Unload frees a lease, without its weights, and returns the number of bytes freed, or 0 if it is not
// there. It fails while an engine or a BlockCopier is open.
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
	bytes := m.KVBlockBytes*int64(m.KVBlocks) + hbm.PageBytes*int64(m.AdapterPages)
	err = m.memory.free()
	if m.adapters != nil {
		err = errors.Join(err, m.adapters.close())
	}
	if m.copy.leases--; m.copy.number > ownCopies {
		delete(s.copies, m.copy.number)
		bytes += m.Info.WeightBytes
		err = errors.Join(err, m.copy.Free())
	}
	return bytes, err
}

// Held returns the leases, by name.
func (s *Store) Held() (all []Loaded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lease := range slices.Sorted(maps.Keys(s.held)) {
		all = append(all, s.held[lease].Loaded)
	}
	return all
}
