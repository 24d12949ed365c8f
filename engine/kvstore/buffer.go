package kvstore

import (
	"context"
	"fmt"

	"troupe/cuda"
)

// buffer serves one read or write at a time. It grows to the largest block used.
type buffer struct {
	bytes  []byte          // page-aligned
	memory cuda.HostMemory // backs bytes; nil if they are Go memory
}

// acquire waits for a free buffer and makes it large enough for a block and its header.
func (f *File) acquire(ctx context.Context, slot int32, bytes int) (*buffer, error) {
	if err := f.check(slot, bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", f.cfg.Path, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case b, ok := <-f.buffers:
		if !ok {
			return nil, fmt.Errorf("%s is closed", f.cfg.Path)
		}
		if err := b.grow(sector+sectors(bytes), f.cfg.AllocHost); err != nil {
			f.buffers <- b
			return nil, fmt.Errorf("buffer for %s: %w", f.cfg.Path, err)
		}
		return b, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("disk of %s is busy: %w", f.cfg.Path, ctx.Err())
	}
}

// beginWrite acquires a buffer and a disk slot; endWrite returns both. A write takes its disk slot
// before its block is copied, so that waiting blocks do not exceed the CPU cache.
func (f *File) beginWrite(ctx context.Context, slot int32, bytes int) (*buffer, error) {
	b, err := f.acquire(ctx, slot, bytes)
	if err != nil {
		return nil, err
	}
	select {
	case f.diskSlots <- struct{}{}:
		return b, nil
	case <-ctx.Done():
		f.buffers <- b
		return nil, fmt.Errorf("disk of %s is busy: %w", f.cfg.Path, ctx.Err())
	}
}

func (f *File) endWrite(b *buffer) {
	<-f.diskSlots
	f.buffers <- b
}

// hugePage is the granularity of buffers. Page-locked memory is then contiguous, so that a disk
// needs fewer requests and is up to twice as fast.
const hugePage = 2 << 20

func (b *buffer) grow(bytes int, alloc func(bytes int64) (cuda.HostMemory, error)) (err error) {
	if len(b.bytes) >= bytes {
		return nil
	}
	if err := b.free(); err != nil {
		return err
	}
	bytes = (bytes + hugePage - 1) / hugePage * hugePage
	if alloc == nil {
		b.bytes = aligned(bytes)
		return nil
	}
	if b.memory, err = alloc(int64(bytes)); err == nil {
		b.bytes = b.memory.Bytes()
	}
	return err
}

func (b *buffer) free() (err error) {
	if b.memory != nil {
		err = b.memory.Free()
	}
	b.memory, b.bytes = nil, nil
	return err
}
