package residency

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/cuda"
)

// BlockCopier copies KV blocks of one lease to and from host memory. It uses its own streams, so
// that the engine keeps stepping. It does not order copies against steps: no step may write a block
// that is read, or use a block that is written. It is safe for concurrent use. Copies in both
// directions run concurrently. Page-locked host memory is copied directly; other memory is copied
// through a staging buffer, one block at a time.
type BlockCopier struct {
	store     *Store
	model     *model
	hostLocks cuda.HostLocks // nil: the device cannot tell which memory is page-locked
	inFlight  sync.WaitGroup // queued copies that a caller waits for

	mu sync.Mutex
	// The two streams of a direction are used in turn, the first is next. A software device then
	// copies on two cores without a gap between copies.
	toDevice, toHost [2]cuda.Stream
	staging          cuda.HostMemory // for one block; nil after Close
}

// OpenBlocks returns a BlockCopier for the lease of a handle. The lease cannot be unloaded before
// Close.
func (s *Store) OpenBlocks(handle string) (_ *BlockCopier, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.byHandle(handle)
	if err != nil {
		return nil, err
	}
	b := &BlockCopier{store: s, model: m}
	b.hostLocks, _ = s.device.(cuda.HostLocks)
	if err := b.open(s.device); err != nil {
		return nil, errors.Join(fmt.Errorf("blocks of lease %s: %w", m.Lease, err), b.release())
	}
	m.users++
	return b, nil
}

func (b *BlockCopier) open(d cuda.Device) (err error) {
	for _, s := range []*cuda.Stream{&b.toDevice[0], &b.toDevice[1], &b.toHost[0], &b.toHost[1]} {
		if *s, err = d.NewStream("blocks"); err != nil {
			return err
		}
	}
	b.staging, err = d.AllocHost(b.model.arena.BlockBytes)
	return err
}

// release frees what open allocated.
func (b *BlockCopier) release() error {
	var errs []error
	for _, s := range []cuda.Stream{b.toDevice[0], b.toDevice[1], b.toHost[0], b.toHost[1]} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if b.staging != nil {
		errs = append(errs, b.staging.Free())
	}
	b.staging = nil
	return errors.Join(errs...)
}

// BlockBytes returns the size of a block.
func (b *BlockCopier) BlockBytes() int { return int(b.model.arena.BlockBytes) }

// Layers returns the number of layers in a block. They have the same size and are stored one after
// the other.
func (b *BlockCopier) Layers() int { return b.model.Info.KVLayers }

// Layout describes the bytes of a block. Replicas of one model can exchange blocks of equal
// layouts.
func (b *BlockCopier) Layout() string {
	return fmt.Sprintf("%s, %d tokens a block", b.model.Info.KVLayout, b.model.arena.BlockTokens)
}

// Read copies a block into host memory of BlockBytes bytes.
func (b *BlockCopier) Read(ctx context.Context, block int32, into []byte) error {
	return b.copy(ctx, transfer{block: block, memory: into, bytes: b.BlockBytes(), toHost: true}, func() {})
}

// ReadPart fills into with the bytes of a block from the offset at.
func (b *BlockCopier) ReadPart(ctx context.Context, block int32, at int, into []byte) error {
	return b.copy(ctx, transfer{block: block, memory: into, offset: at, bytes: len(into), toHost: true}, func() {})
}

// Write copies host memory of BlockBytes bytes into a block.
func (b *BlockCopier) Write(ctx context.Context, block int32, from []byte) error {
	return b.copy(ctx, transfer{block: block, memory: from, bytes: b.BlockBytes()}, func() {})
}

// WritePart copies host memory into a block at an offset. It calls queued once any later Mark
// covers the copy, and returns when the copy is done.
func (b *BlockCopier) WritePart(ctx context.Context, block int32, at int, from []byte, queued func()) error {
	return b.copy(ctx, transfer{block: block, memory: from, offset: at, bytes: len(from)}, queued)
}

// Mark returns an event that is done when all writes queued so far are done.
func (b *BlockCopier) Mark() (cuda.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.staging == nil {
		return nil, errBlocksClosed
	}
	other, err := b.toDevice[1].Record()
	if err == nil {
		err = b.toDevice[0].Wait(other)
	}
	if err != nil {
		return nil, err
	}
	return b.toDevice[0].Record()
}

var errBlocksClosed = errors.New("block copier is closed")

// transfer is a copy between a range of a block and host memory.
type transfer struct {
	block         int32
	memory        []byte
	offset, bytes int
	toHost        bool
}

// copy checks a transfer and runs it.
func (b *BlockCopier) copy(ctx context.Context, p transfer, queued func()) error {
	blocks, size := b.model.arena.Blocks(), b.model.arena.BlockBytes
	if p.block < 0 || int(p.block) >= blocks || len(p.memory) != p.bytes || p.offset < 0 || p.bytes < 1 ||
		int64(p.offset+p.bytes) > size {
		return fmt.Errorf(
			"block %d of %d, %d bytes of %d at offset %d: outside lease %s",
			p.block, blocks, len(p.memory), size, p.offset, b.model.Lease,
		)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.run(p, queued); err != nil {
		return fmt.Errorf("block %d of lease %s: %w", p.block, b.model.Lease, err)
	}
	return nil
}

// run runs one transfer. Transfers without staging follow each other on their stream without
// waiting for their callers.
func (b *BlockCopier) run(p transfer, queued func()) error {
	done, err := b.start(p)
	if err != nil {
		return err
	}
	if done == nil {
		queued()
		return nil
	}
	defer b.inFlight.Done()
	queued()
	return done.Sync()
}

// start queues a transfer and returns its event. The transfer counts as in flight until the caller
// calls inFlight.Done. A transfer through the staging buffer has ended when start returns, and its
// event is nil.
func (b *BlockCopier) start(p transfer) (cuda.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.staging == nil:
		return nil, errBlocksClosed
	case b.hostLocks == nil || !b.hostLocks.Locked(p.memory):
		return nil, b.copyStaged(p)
	}
	done, err := b.enqueue(p, p.memory)
	if err == nil {
		b.inFlight.Add(1)
	}
	return done, err
}

// copyStaged copies through the staging buffer. The caller holds the lock.
func (b *BlockCopier) copyStaged(p transfer) error {
	staged := b.staging.Bytes()[:len(p.memory)]
	if !p.toHost {
		copy(staged, p.memory)
	}
	done, err := b.enqueue(p, staged)
	if err == nil {
		err = done.Sync()
	}
	if err == nil && p.toHost {
		copy(p.memory, staged)
	}
	return err
}

// enqueue adds a copy to a stream. The caller holds the lock.
func (b *BlockCopier) enqueue(p transfer, host []byte) (done cuda.Event, err error) {
	streams, at := &b.toDevice, b.model.arena.Base.Offset(int64(p.block)*b.model.arena.BlockBytes+int64(p.offset))
	if p.toHost {
		streams = &b.toHost
	}
	s := streams[0]
	streams[0], streams[1] = streams[1], s
	if p.toHost {
		err = s.CopyOut(host, at)
	} else {
		err = s.CopyIn(at, host)
	}
	done, failed := s.Record()
	return done, errors.Join(err, failed)
}

// Close waits for the copies in flight. Later copies fail.
func (b *BlockCopier) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.staging == nil {
		return nil
	}
	b.inFlight.Wait()
	b.store.mu.Lock()
	b.model.users--
	b.store.mu.Unlock()
	return b.release()
}
