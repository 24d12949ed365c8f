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

// Layout says what a block's bytes mean. Blocks of equal layouts are interchangeable between replicas of one model.
func (b *Blocks) Layout() string {
	return fmt.Sprintf("%s, %d tokens a block", b.holding.Facts.KVLayout, b.holding.arena.BlockTokens)
}

// Read copies a block into host memory of BlockBytes.
func (b *Blocks) Read(ctx context.Context, block int32, into []byte) error {
	return b.copy(ctx, block, into, b.stream.CopyOut, func() { copy(into, b.staging.Bytes()) })
}

// Write copies host memory of BlockBytes into a block.
func (b *Blocks) Write(ctx context.Context, block int32, from []byte) error {
	stage := func(host []byte, at cuda.Ptr) error {
		copy(host, from) // nothing where it is from itself
		return b.stream.CopyIn(at, host)
	}
	return b.copy(ctx, block, from, stage, func() {})
}

// copy checks what is to be copied, and has it done; unstage follows a copy to the staging memory.
func (b *Blocks) copy(ctx context.Context, block int32, host []byte, do func([]byte, cuda.Ptr) error, unstage func()) error {
	blocks := b.holding.arena.Blocks()
	if bytes := b.holding.arena.BlockBytes; block < 0 || int(block) >= blocks || int64(len(host)) != bytes {
		return fmt.Errorf("block %d of %d, %d bytes of %d: not of lease %s", block, blocks, len(host), bytes, b.holding.Lease)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at := b.holding.arena.Base.Offset(int64(block) * b.holding.arena.BlockBytes)
	err := b.carry(host, func(host []byte) error { return do(host, at) }, unstage)
	if err != nil {
		return fmt.Errorf("block %d of lease %s: %w", block, b.holding.Lease, err)
	}
	return nil
}

// carry has one copy done. Those that need no staging follow each other on the stream without waiting for whoever wants them.
func (b *Blocks) carry(host []byte, do func(host []byte) error, unstage func()) error {
	b.mu.Lock()
	if b.staging == nil {
		b.mu.Unlock()
		return errors.New("its blocks are closed")
	}
	if b.locks == nil || !b.locks.Locked(host) {
		defer b.mu.Unlock()
		if err := errors.Join(do(b.staging.Bytes()), b.stream.Sync()); err != nil {
			return err
		}
		unstage()
		return nil
	}
	b.flying.Add(1)
	defer b.flying.Done()
	err := do(host)
	done, failed := b.stream.Record()
	b.mu.Unlock()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
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
