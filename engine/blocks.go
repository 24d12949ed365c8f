package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/cuda"
)

// Blocks copies the KV blocks of one lease to and from host memory, on a stream of its own, so that the lease's engine keeps
// stepping meanwhile. It does not order itself against steps: a block that is read must not be written by one, and a
// block that is written must belong to nobody else. It is safe for concurrent use; the copies run one by one, each straight from or to
// host memory that is page-locked for the device, and others by way of memory that is.
type Blocks struct {
	holder  *Holder
	holding *holding
	locks   cuda.HostLocks // nil: the device does not tell which memory is page-locked
	flying  sync.WaitGroup // copies that need no staging

	mu      sync.Mutex
	stream  cuda.Stream
	staging cuda.HostMemory // of one block; nil once closed
}

// Blocks opens the KV blocks of a lease that is held. The lease can not be unloaded until Close.
func (h *Holder) Blocks(lease string) (_ *Blocks, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := h.find(lease)
	if err != nil {
		return nil, err
	}
	b := &Blocks{holder: h, holding: l}
	b.locks, _ = h.device.(cuda.HostLocks)
	if b.stream, err = h.device.NewStream("blocks"); err != nil {
		return nil, fmt.Errorf("blocks of lease %s: %w", lease, err)
	}
	if b.staging, err = h.device.AllocHost(l.arena.BlockBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("blocks of lease %s: %w", lease, err), b.stream.Close())
	}
	l.users++
	return b, nil
}

// BlockBytes is the size of a block.
func (b *Blocks) BlockBytes() int { return int(b.holding.arena.BlockBytes) }

// Layers is how many layers a block holds, one after the other and of one size each.
func (b *Blocks) Layers() int { return b.holding.Facts.KVLayers }

// Layout says what a block's bytes mean. Blocks of equal layouts are interchangeable between replicas of one model.
func (b *Blocks) Layout() string {
	return fmt.Sprintf("%s, %d tokens a block", b.holding.Facts.KVLayout, b.holding.arena.BlockTokens)
}

// Read copies a block into host memory of BlockBytes.
func (b *Blocks) Read(ctx context.Context, block int32, into []byte) error {
	return b.read(ctx, part{block: block, host: into, bytes: b.BlockBytes()})
}

// ReadPart fills host memory from a block, from one of its bytes on.
func (b *Blocks) ReadPart(ctx context.Context, block int32, at int, into []byte) error {
	return b.read(ctx, part{block: block, host: into, from: at, bytes: len(into)})
}

func (b *Blocks) read(ctx context.Context, p part) error {
	return b.copy(ctx, p, b.stream.CopyOut, func() { copy(p.host, b.staging.Bytes()) }, func() {})
}

// Write copies host memory of BlockBytes into a block.
func (b *Blocks) Write(ctx context.Context, block int32, from []byte) error {
	return b.write(ctx, part{block: block, host: from, bytes: b.BlockBytes()}, func() {})
}

// WritePart copies host memory into a block from one of its bytes on, and calls queued once no Mark can come before the copy. It returns when
// the copy is done.
func (b *Blocks) WritePart(ctx context.Context, block int32, at int, from []byte, queued func()) error {
	return b.write(ctx, part{block: block, host: from, from: at, bytes: len(from)}, queued)
}

// Mark returns an event that is done when all copies are that were queued so far.
func (b *Blocks) Mark() (cuda.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.staging == nil {
		return nil, errBlocksClosed
	}
	return b.stream.Record()
}

var errBlocksClosed = errors.New("its blocks are closed")

// part is some bytes of a block, and the host memory that they are copied to or from.
type part struct {
	block       int32
	host        []byte
	from, bytes int
}

func (b *Blocks) write(ctx context.Context, p part, queued func()) error {
	stage := func(host []byte, at cuda.Ptr) error {
		copy(host, p.host) // nothing where it is that itself
		return b.stream.CopyIn(at, host)
	}
	return b.copy(ctx, p, stage, func() {}, queued)
}

// copy checks what is to be copied, and has it done; unstage follows a copy to the staging memory.
func (b *Blocks) copy(ctx context.Context, p part, do func([]byte, cuda.Ptr) error, unstage, queued func()) error {
	blocks, size := b.holding.arena.Blocks(), b.holding.arena.BlockBytes
	if p.block < 0 || int(p.block) >= blocks || len(p.host) != p.bytes || p.from < 0 || p.bytes < 1 || int64(p.from+p.bytes) > size {
		return fmt.Errorf("block %d of %d, %d bytes of %d from %d: not of lease %s", p.block, blocks, len(p.host), size, p.from, b.holding.Lease)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at := b.holding.arena.Base.Offset(int64(p.block)*size + int64(p.from))
	err := b.carry(p.host, func(host []byte) error { return do(host, at) }, unstage, queued)
	if err != nil {
		return fmt.Errorf("block %d of lease %s: %w", p.block, b.holding.Lease, err)
	}
	return nil
}

// carry has one copy done. Those that need no staging follow each other on the stream without waiting for whoever wants them.
func (b *Blocks) carry(host []byte, do func(host []byte) error, unstage, queued func()) error {
	b.mu.Lock()
	if b.staging == nil {
		b.mu.Unlock()
		return errBlocksClosed
	}
	if b.locks == nil || !b.locks.Locked(host) {
		err := errors.Join(do(b.staging.Bytes()[:len(host)]), b.stream.Sync())
		if err == nil {
			unstage()
		}
		b.mu.Unlock()
		if err == nil {
			queued()
		}
		return err
	}
	b.flying.Add(1)
	defer b.flying.Done()
	err := do(host)
	done, failed := b.stream.Record()
	b.mu.Unlock()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	queued()
	return done.Sync()
}

// Close waits for the copies that are under way and ends all others.
func (b *Blocks) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.staging == nil {
		return nil
	}
	staging := b.staging
	b.staging = nil
	b.flying.Wait()
	b.holder.mu.Lock()
	b.holding.users--
	b.holder.mu.Unlock()
	return errors.Join(b.stream.Close(), staging.Free())
}
