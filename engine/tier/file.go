package tier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"troupe/core/kv"
	"troupe/cuda"
)

// FileConfig describes a File.
type FileConfig struct {
	Path      string // of the file; made where it is absent
	Slots     int    // the disk space of all is taken at once
	SlotBytes int    // size of the largest block; a file with slots of another size is emptied
	Depth     int    // reads and writes at once; default 8

	// AllocHost gives memory for reads and writes under way, page-locked for the device that blocks come from. Nil: they take a detour.
	AllocHost func(bytes int64) (cuda.HostMemory, error)

	noDirect bool // as on a file system without O_DIRECT
}

// File stores blocks in a file, past the page cache where the file system can do that. It keeps them over restarts.
type File struct {
	cfg     FileConfig
	disk    disk
	direct  bool
	emptied bool            // it held slots of another size, or of an earlier version
	turns   chan []byte     // a buffer for each read or write at once
	memory  cuda.HostMemory // of the buffers; nil: they are Go's

	mu       sync.Mutex
	heads    []header // of each slot, without sums, as far as they are known to be on the disk
	sequence uint64   // of the last write
}

// disk is what a File does to its file.
type disk interface {
	ReadAt(b []byte, at int64) (int, error)
	WriteAt(b []byte, at int64) (int, error)
	Close() error
}

var _ Store = (*File)(nil)

// Slots is how many blocks fit.
func (f *File) Slots() int { return f.cfg.Slots }

// SlotBytes is the size of the largest block.
func (f *File) SlotBytes() int { return f.cfg.SlotBytes }

// Direct reports whether the page cache is passed by.
func (f *File) Direct() bool { return f.direct }

// Emptied reports whether the file had blocks that could not be kept: in slots of another size, or written by an earlier version.
func (f *File) Emptied() bool { return f.emptied }

// stride is the distance of two slots.
func (c FileConfig) stride() int { return sector + sectors(c.SlotBytes) }

// at is where a slot begins.
func (c FileConfig) at(slot int32) int64 { return sector + int64(slot)*int64(c.stride()) }

// Depth implements Store.
func (f *File) Depth() int { return f.cfg.Depth }

// Write implements Store.
func (f *File) Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return f.Fill(ctx, slot, h, len(block), func(into []byte) error { copy(into, block); return nil })
}

// Fill puts header and block into a slot with one write. The context ends the wait for a turn, not the write.
func (f *File) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	buffer, err := f.turn(ctx, slot, bytes)
	if err != nil {
		return err
	}
	defer func() { f.turns <- buffer }()
	end := sector + bytes
	block := buffer[sector:end]
	if err := from(block); err != nil {
		return err
	}
	head := header{f.begin(slot), h, bytes, sumPieces(h, block)}
	head.put(buffer)
	all := buffer[:sector+sectors(bytes)]
	clear(all[end:])
	return f.write(slot, all, head)
}

// begin forgets what a slot holds, and numbers the next write.
func (f *File) begin(slot int32) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heads[slot] = header{}
	f.sequence++
	return f.sequence
}

// Erase overwrites a slot's header.
func (f *File) Erase(ctx context.Context, slot int32) error {
	buffer, err := f.turn(ctx, slot, 0)
	if err != nil {
		return err
	}
	defer func() { f.turns <- buffer }()
	f.begin(slot)
	clear(buffer[:sector])
	return f.write(slot, buffer[:sector], header{})
}

// Held is what the slots hold.
func (f *File) Held() []Held {
	f.mu.Lock()
	heads := slices.Clone(f.heads)
	f.mu.Unlock()
	return heldBy(heads)
}

func (f *File) write(slot int32, b []byte, head header) error {
	if _, err := f.disk.WriteAt(b, f.cfg.at(slot)); err != nil {
		return fmt.Errorf("write slot %d of %s: %w", slot, f.cfg.Path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	head.sums = nil // who reads the block reads them too
	f.heads[slot] = head
	return nil
}

// Read implements Store. Once it has returned, block is not written to any more.
func (f *File) Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return f.View(ctx, slot, h, len(block), func(read []byte) error { copy(block, read); return nil })
}

// View implements Store. At the end of the context it returns, though the disk may take longer.
func (f *File) View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func([]byte) error) error {
	return f.ViewRange(ctx, &Reading{Slot: slot, Hash: h, Bytes: bytes}, 0, bytes, use)
}

// ViewRange implements Store likewise. The header is read with the first range, at once where that is the beginning of the block.
func (f *File) ViewRange(ctx context.Context, r *Reading, from, to int, use func([]byte) error) error {
	if err := r.check(from, to); err != nil {
		return err
	}
	buffer, err := f.turn(ctx, r.Slot, r.Bytes)
	if err != nil {
		return err
	}
	lo, hi := r.cover(from, to)
	read, headed := make(chan error, 1), r.sums != nil
	go func() { read <- f.read(buffer, r.Slot, lo, hi, headed) }()
	select {
	case err = <-read:
		if err == nil && !headed {
			err = r.head(buffer)
		}
		if err == nil {
			err = r.intact(buffer[sector+lo:sector+hi], lo)
		}
		if err == nil {
			err = use(buffer[sector+from : sector+to : sector+to])
		}
		f.turns <- buffer
	case <-ctx.Done():
		go func() { <-read; f.turns <- buffer }()
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("read slot %d of %s: %w", r.Slot, f.cfg.Path, err)
	}
	return nil
}

// read fills the part of a buffer that bytes [lo, hi) of a slot's block belong to, and that of the header unless that is known.
func (f *File) read(buffer []byte, slot int32, lo, hi int, headed bool) error {
	begin := sector + lo
	if !headed && lo == 0 {
		begin = 0
	} else if !headed {
		if _, err := f.disk.ReadAt(buffer[:sector], f.cfg.at(slot)); err != nil {
			return err
		}
	}
	_, err := f.disk.ReadAt(buffer[begin:sector+sectors(hi)], f.cfg.at(slot)+int64(begin))
	return err
}

// head takes the sums from what was read of a slot, where it holds the block.
func (r *Reading) head(read []byte) error {
	head, ok := parseHeader(read)
	switch {
	case !ok:
		return fmt.Errorf("no header: %w", ErrDamaged)
	case head.hash != r.Hash || head.length != r.Bytes:
		return fmt.Errorf("another block: %w", ErrDamaged)
	}
	r.sums = head.sums
	return nil
}

// ReadSealed implements Store.
func (f *File) ReadSealed(ctx context.Context, slot int32, h kv.Hash, sealed []byte) error {
	if err := f.Read(ctx, slot, h, sealed[:len(sealed)-SealBytes]); err != nil {
		return err
	}
	Seal(h, sealed)
	return nil
}

// turn waits for one of the buffers.
func (f *File) turn(ctx context.Context, slot int32, bytes int) ([]byte, error) {
	if slot < 0 || int(slot) >= f.cfg.Slots || bytes > f.cfg.SlotBytes {
		return nil, fmt.Errorf("slot %d of %d, %d bytes of %d: not in %s", slot, f.cfg.Slots, bytes, f.cfg.SlotBytes, f.cfg.Path)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case buffer, ok := <-f.turns:
		if !ok {
			return nil, fmt.Errorf("%s is closed", f.cfg.Path)
		}
		return buffer, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the disk of %s is busy: %w", f.cfg.Path, ctx.Err())
	}
}

// Close waits for the reads and writes under way, and gives the file up. No other method may be called meanwhile or afterwards.
func (f *File) Close() error {
	for range cap(f.turns) {
		<-f.turns
	}
	close(f.turns)
	err := f.disk.Close()
	if f.memory != nil {
		err = errors.Join(err, f.memory.Free())
	}
	return err
}
