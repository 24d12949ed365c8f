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
	store    *Store
	model    *model
	locks    cuda.HostLocks // nil: the device cannot tell which memory is page-locked
	inFlight sync.WaitGroup // queued copies that a caller waits for

	mu sync.Mutex
	// up and down are used in turn, the first is next: with two streams, a software device copies
	// on two cores without a gap between copies.
	up, down [2]cuda.Stream
	staging  cuda.HostMemory // for one block; nil after Close
}

// OpenBlocks returns a BlockCopier for a loaded lease. The lease cannot be unloaded before Close.
func (s *Store) OpenBlocks(lease string) (_ *BlockCopier, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.get(lease)
	if err != nil {
		return nil, err
	}
	b := &BlockCopier{store: s, model: m}
	b.locks, _ = s.device.(cuda.HostLocks)
	if err := b.open(s.device); err != nil {
		return nil, errors.Join(fmt.Errorf("blocks of lease %s: %w", lease, err), b.release())
	}
	m.users++
	return b, nil
}

func (b *BlockCopier) open(d cuda.Device) (err error) {
	for _, s := range []*cuda.Stream{&b.up[0], &b.up[1], &b.down[0], &b.down[1]} {
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
	for _, s := range []cuda.Stream{b.up[0], b.up[1], b.down[0], b.down[1]} {
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
	return b.copy(ctx, transfer{block: block, host: into, bytes: b.BlockBytes(), down: true}, func() {})
}

// ReadPart fills into with the bytes of a block from the offset at.
func (b *BlockCopier) ReadPart(ctx context.Context, block int32, at int, into []byte) error {
	return b.copy(ctx, transfer{block: block, host: into, from: at, bytes: len(into), down: true}, func() {})
}

// Write copies host memory of BlockBytes bytes into a block.
func (b *BlockCopier) Write(ctx context.Context, block int32, from []byte) error {
	return b.copy(ctx, transfer{block: block, host: from, bytes: b.BlockBytes()}, func() {})
}

// WritePart copies host memory into a block at an offset. It calls queued when every later Mark
// includes the copy, and returns when the copy is done.
func (b *BlockCopier) WritePart(ctx context.Context, block int32, at int, from []byte, queued func()) error {
	return b.copy(ctx, transfer{block: block, host: from, from: at, bytes: len(from)}, queued)
}

// Mark returns an event that is done when all writes queued so far are done.
func (b *BlockCopier) Mark() (cuda.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.staging == nil {
		return nil, errBlocksClosed
	}
	other, err := b.up[1].Record()
	if err == nil {
		err = b.up[0].Wait(other)
	}
	if err != nil {
		return nil, err
	}
	return b.up[0].Record()
}

var errBlocksClosed = errors.New("block copier is closed")

// transfer is a copy between a range of a block and host memory.
type transfer struct {
	block       int32
	host        []byte
	from, bytes int
	down        bool
}

// copy checks a transfer and runs it.
func (b *BlockCopier) copy(ctx context.Context, p transfer, queued func()) error {
	blocks, size := b.model.arena.Blocks(), b.model.arena.BlockBytes
	if p.block < 0 || int(p.block) >= blocks || len(p.host) != p.bytes || p.from < 0 || p.bytes < 1 ||
		int64(p.from+p.bytes) > size {
		return fmt.Errorf(
			"block %d of %d, %d bytes of %d at offset %d: outside lease %s", p.block, blocks, len(p.host), size, p.from,
			b.model.Lease,
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

// start queues a transfer and returns its event; the caller counts as in flight until it calls
// Done. For a transfer through the staging buffer it returns a nil event after the copy.
func (b *BlockCopier) start(p transfer) (cuda.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.staging == nil:
		return nil, errBlocksClosed
	case b.locks == nil || !b.locks.Locked(p.host):
		return nil, b.copyStaged(p)
	}
	done, err := b.enqueue(p, p.host)
	if err == nil {
		b.inFlight.Add(1)
	}
	return done, err
}

// copyStaged copies through the staging buffer. The caller holds the lock.
func (b *BlockCopier) copyStaged(p transfer) error {
	staged := b.staging.Bytes()[:len(p.host)]
	if !p.down {
		copy(staged, p.host)
	}
	done, err := b.enqueue(p, staged)
	if err == nil {
		err = done.Sync()
	}
	if err == nil && p.down {
		copy(p.host, staged)
	}
	return err
}

// enqueue adds a copy to a stream. The caller holds the lock.
func (b *BlockCopier) enqueue(p transfer, host []byte) (done cuda.Event, err error) {
	way, at := &b.up, b.model.arena.Base.Offset(int64(p.block)*b.model.arena.BlockBytes+int64(p.from))
	if p.down {
		way = &b.down
	}
	s := way[0]
	way[0], way[1] = way[1], s
	if p.down {
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
