package tier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"troupe/core/kv"
	"troupe/cuda"
)

// FileConfig describes a File.
type FileConfig struct {
	Path  string   // of the file; made where it is absent
	Slabs kv.Slabs // Count and Bytes; the disk space of all is taken at once, and a file with slabs of another size is emptied
	Depth int      // reads and writes at once; default 8. Half as many blocks again are summed and copied on meanwhile

	// AllocHost gives memory for reads and writes under way, page-locked for the device that blocks come from. Nil: they take a detour.
	AllocHost func(bytes int64) (cuda.HostMemory, error)

	noDirect bool // as on a file system without O_DIRECT
}

// File stores blocks in a file, past the page cache where the file system can do that. It keeps them over restarts.
type File struct {
	table   // its headers are without sums, and as far as they are known to be on the disk
	cfg     FileConfig
	disk    disk
	direct  bool
	emptied bool          // it held slabs of another size, was of an earlier version, or its name was damaged
	unread  int           // names and headers that could not be read when it was opened
	turns   chan *buffer  // half as many again as places
	places  chan struct{} // taken by each write, and by each read for as long as the disk has it
}

// disk is what a File does to its file.
type disk interface {
	ReadAt(b []byte, at int64) (int, error)
	WriteAt(b []byte, at int64) (int, error)
	Close() error
}

var _ Store = (*File)(nil)

// Direct reports whether the page cache is passed by.
func (f *File) Direct() bool { return f.direct }

// Emptied reports whether the file had blocks that could not be kept: in slabs of another size, written by an earlier version, or in a file whose name was damaged.
func (f *File) Emptied() bool { return f.emptied }

// Unread is how many names of slabs and headers of slots the disk could not read when the file was opened. What they belong to counts as empty.
func (f *File) Unread() int { return f.unread }

// at is where a slot begins, and slabAt where a slab does.
func (f *File) at(slot int32, bytes int) int64 { return sector + f.cut.Offset(slot, bytes) }
func (f *File) slabAt(slab int) int64          { return sector + int64(slab)*int64(f.cut.Bytes) }

// Depth implements Store.
func (f *File) Depth() int { return cap(f.turns) }

// Write implements Store.
func (f *File) Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return f.Fill(ctx, slot, h, len(block), func(into []byte) error { copy(into, block); return nil })
}

// Fill puts header and block into a slot with one write. The context ends the wait for a turn, not the write.
func (f *File) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	b, err := f.begin(ctx, slot, bytes)
	if err != nil {
		return err
	}
	defer f.end(b)
	end := sector + bytes
	block := b.bytes[sector:end:end]
	if err := from(block); err != nil {
		return err
	}
	s, l, err := f.claim(slot, bytes, func(slab, bytes int) error { return f.name(b, slab, bytes) })
	if err != nil {
		return err
	}
	defer s.mu.RUnlock()
	l.set(header{})
	head := header{f.sequence.Add(1), h, bytes, sumPieces(h, block)}
	head.put(b.bytes)
	all := b.bytes[:sector+sectors(bytes)]
	clear(all[end:])
	if err := f.write(all, f.at(slot, bytes)); err != nil {
		return err
	}
	head.sums = nil // who reads the block reads them too
	l.set(head)
	return nil
}

func (l *label) set(head header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = head
}

// name says on the disk that a slab is for blocks of that size from now on, and that it holds none.
func (f *File) name(b *buffer, slab, bytes int) error {
	putName(b.bytes, slabMagic, bytes, f.sequence.Add(1))
	return f.write(b.bytes[:sector], f.slabAt(slab))
}

// Erase names slabs anew that hold nothing else, and overwrites the headers of slots in others.
func (f *File) Erase(ctx context.Context, slots []int32) error {
	b, err := f.begin(ctx, 0, 1)
	if err != nil {
		return err
	}
	defer f.end(b)
	bySlab := make(map[int][]int32)
	for _, slot := range slots {
		i, _ := f.cut.Locate(slot)
		bySlab[i] = append(bySlab[i], slot)
	}
	for i, slots := range bySlab {
		if err := errors.Join(ctx.Err(), f.erase(b, i, slots)); err != nil {
			return err
		}
	}
	return nil
}

// erase waits for the writes to a slab that are under way, so that none of them is taken for older than the slab's name.
func (f *File) erase(b *buffer, i int, slots []int32) error {
	s := &f.slabs[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes == 0 {
		return nil
	}
	slots = slices.DeleteFunc(slots, func(slot int32) bool { return !f.cut.Has(slot, s.bytes) })
	for _, slot := range slots {
		_, nth := f.cut.Locate(slot)
		s.slots[nth].header = header{}
	}
	if s.empty() {
		return f.name(b, i, s.bytes)
	}
	clear(b.bytes[:sector])
	for _, slot := range slots {
		if err := f.write(b.bytes[:sector], f.at(slot, s.bytes)); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) write(b []byte, at int64) error {
	if _, err := f.disk.WriteAt(b, at); err != nil {
		return fmt.Errorf("write byte %d of %s: %w", at, f.cfg.Path, err)
	}
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
	b, err := f.turn(ctx, r.Slot, r.Bytes)
	if err != nil {
		return err
	}
	buffer := b.bytes
	lo, hi := r.cover(from, to)
	read, headed := make(chan error, 1), r.sums != nil
	go func() {
		select {
		case f.places <- struct{}{}:
			read <- f.read(buffer, f.at(r.Slot, r.Bytes), lo, hi, headed)
			<-f.places // last, so that who waits for the place is at the disk before this is summed
		case <-ctx.Done():
			read <- ctx.Err()
		}
	}()
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
		f.turns <- b
	case <-ctx.Done():
		go func() { <-read; f.turns <- b }()
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("read slot %d of %s: %w", r.Slot, f.cfg.Path, err)
	}
	return nil
}

// read fills the part of a buffer that bytes [lo, hi) of the block of the slot at a place belong to, and that of the header unless that is known.
// No lock is needed: the sums tell what it has read.
func (f *File) read(buffer []byte, at int64, lo, hi int, headed bool) error {
	begin := sector + lo
	if !headed && lo == 0 {
		begin = 0
	} else if !headed {
		if _, err := f.disk.ReadAt(buffer[:sector], at); err != nil {
			return lost(err)
		}
	}
	_, err := f.disk.ReadAt(buffer[begin:sector+sectors(hi)], at+int64(begin))
	return lost(err)
}

// lost is what a disk that can not read says: the block is as good as damaged, and not to be tried again.
func lost(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", err, ErrDamaged)
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

// Close waits for the reads and writes under way, and gives the file up. No other method may be called meanwhile or afterwards.
func (f *File) Close() error {
	var errs []error
	for range cap(f.turns) {
		errs = append(errs, (<-f.turns).free())
	}
	close(f.turns)
	return errors.Join(append(errs, f.disk.Close())...)
}
