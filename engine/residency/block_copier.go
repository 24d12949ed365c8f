package residency

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/cuda"
)

// BlockCopier copies the KV blocks of one lease to and from host memory, on streams of its own, so that the lease's engine keeps
// stepping meanwhile. It does not order itself against steps: a block that is read must not be written by one, and a
// block that is written must belong to nobody else. It is safe for concurrent use. BlockCopier go up and down at once, each straight from or to
// host memory that is page-locked for the device, and others one by one by way of memory that is.
type BlockCopier struct {
	store    *Store
	model    *model
	locks    cuda.HostLocks // nil: the device does not tell which memory is page-locked
	inFlight sync.WaitGroup // copies on a stream that somebody waits for

	mu       sync.Mutex
	up, down [2]cuda.Stream  // by turns, the first is next: a software device copies on two cores, and none waits between two copies
	staging  cuda.HostMemory // of one block; nil once closed
}

// BlockCopier opens the KV blocks of a lease that is held. The lease can not be unloaded until Close.
func (h *Store) OpenBlocks(lease string) (_ *BlockCopier, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := h.get(lease)
	if err != nil {
		return nil, err
	}
	b := &BlockCopier{store: h, model: l}
	b.locks, _ = h.device.(cuda.HostLocks)
	if err := b.open(h.device); err != nil {
		return nil, errors.Join(fmt.Errorf("blocks of lease %s: %w", lease, err), b.release())
	}
	l.users++
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

// shut gives back what open has got.
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

// BlockBytes is the size of a block.
func (b *BlockCopier) BlockBytes() int { return int(b.model.arena.BlockBytes) }

// Layers is how many layers a block holds, one after the other and of one size each.
func (b *BlockCopier) Layers() int { return b.model.Info.KVLayers }

// Layout says what a block's bytes mean. BlockCopier of equal layouts are interchangeable between replicas of one model.
func (b *BlockCopier) Layout() string {
	return fmt.Sprintf("%s, %d tokens a block", b.model.Info.KVLayout, b.model.arena.BlockTokens)
}

// Read copies a block into host memory of BlockBytes.
func (b *BlockCopier) Read(ctx context.Context, block int32, into []byte) error {
	return b.copy(ctx, transfer{block: block, host: into, bytes: b.BlockBytes(), down: true}, func() {})
}

// ReadPart fills host memory from a block, from one of its bytes on.
func (b *BlockCopier) ReadPart(ctx context.Context, block int32, at int, into []byte) error {
	return b.copy(ctx, transfer{block: block, host: into, from: at, bytes: len(into), down: true}, func() {})
}

// Write copies host memory of BlockBytes into a block.
func (b *BlockCopier) Write(ctx context.Context, block int32, from []byte) error {
	return b.copy(ctx, transfer{block: block, host: from, bytes: b.BlockBytes()}, func() {})
}

// WritePart copies host memory into a block from one of its bytes on, and calls queued once no Mark can come before the copy. It returns when
// the copy is done.
func (b *BlockCopier) WritePart(ctx context.Context, block int32, at int, from []byte, queued func()) error {
	return b.copy(ctx, transfer{block: block, host: from, from: at, bytes: len(from)}, queued)
}

// Mark returns an event that is done when all copies up are that were queued so far.
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

var errBlocksClosed = errors.New("its blocks are closed")

// part is some bytes of a block, and the host memory that they are copied to or from.
type transfer struct {
	block       int32
	host        []byte
	from, bytes int
	down        bool
}

// copy checks what is to be copied, and has it done.
func (b *BlockCopier) copy(ctx context.Context, p transfer, queued func()) error {
	blocks, size := b.model.arena.Blocks(), b.model.arena.BlockBytes
	if p.block < 0 || int(p.block) >= blocks || len(p.host) != p.bytes || p.from < 0 || p.bytes < 1 ||
		int64(p.from+p.bytes) > size {
		return fmt.Errorf(
			"block %d of %d, %d bytes of %d from %d: not of lease %s", p.block, blocks, len(p.host), size, p.from,
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

// carry has one copy done. Those that need no staging follow each other on their stream without waiting for whoever wants them.
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

// begin returns when the copy is queued, and whoever waits for the event is counted as flying; or without an event, when it was done by way
// of the staging memory.
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

// detour copies by way of the staging memory. The lock is held.
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

// queue gives a copy to a stream. The lock is held.
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

// Close waits for the copies that are under way and ends all others.
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
