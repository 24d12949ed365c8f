package tier

import (
	"context"
	"fmt"

	"troupe/cuda"
)

// buffer is for one read or write at once. It grows with the blocks that there are.
type buffer struct {
	bytes  []byte          // from a page on
	memory cuda.HostMemory // of bytes; nil: they are Go's
}

// turn waits for one of the buffers, and makes it large enough for a block and its header.
func (f *File) turn(ctx context.Context, slot int32, bytes int) (*buffer, error) {
	if err := f.check(slot, bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", f.cfg.Path, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case b, ok := <-f.turns:
		if !ok {
			return nil, fmt.Errorf("%s is closed", f.cfg.Path)
		}
		if err := b.grow(sector+sectors(bytes), f.cfg.AllocHost); err != nil {
			f.turns <- b
			return nil, fmt.Errorf("buffer for %s: %w", f.cfg.Path, err)
		}
		return b, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the disk of %s is busy: %w", f.cfg.Path, ctx.Err())
	}
}

// begin is turn for a write, with a place at the disk; end gives both back. A write has its place before its block comes, so that no more
// blocks wait than the processor's cache may hold until the disk has taken them.
func (f *File) begin(ctx context.Context, slot int32, bytes int) (*buffer, error) {
	b, err := f.turn(ctx, slot, bytes)
	if err != nil {
		return nil, err
	}
	select {
	case f.places <- struct{}{}:
		return b, nil
	case <-ctx.Done():
		f.turns <- b
		return nil, fmt.Errorf("the disk of %s is busy: %w", f.cfg.Path, ctx.Err())
	}
}

func (f *File) end(b *buffer) {
	<-f.places
	f.turns <- b
}

// hugePage is what a buffer is a multiple of: page-locked memory is then in one piece, so that a disk needs fewer requests, and is up to twice as fast.
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
