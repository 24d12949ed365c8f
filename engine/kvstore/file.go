package kvstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"troupe/core/kv"
	"troupe/cuda"
)

// FileConfig describes a File.
type FileConfig struct {
	Path string // created if absent
	// Slabs gives the number and size of the slabs. Their disk space is allocated on opening. A
	// file with slabs of another size is emptied.
	Slabs kv.Slabs
	// Depth is the number of concurrent reads and writes; default 8. Half as many more blocks are
	// checksummed and copied meanwhile.
	Depth int

	// AllocHost allocates page-locked memory for reads and writes in flight. If nil, each block is
	// copied one extra time.
	AllocHost func(bytes int64) (cuda.HostMemory, error)

	noDirect bool // simulates a file system without O_DIRECT
}

// File stores blocks in a file and keeps them across restarts. It bypasses the page cache if the
// file system supports it.
type File struct {
	table     // headers without sums, as known to be on disk
	cfg       FileConfig
	disk      Disk
	direct    bool
	emptied   bool          // slabs of another size, an earlier version or a damaged name
	unread    int           // names and headers that could not be read on opening
	buffers   chan *buffer  // free buffers; half as many more than diskSlots
	diskSlots chan struct{} // held by each write, and by each read during its disk access
}

// Disk is the part of os.File that File uses.
type Disk interface {
	ReadAt(b []byte, at int64) (int, error)
	WriteAt(b []byte, at int64) (int, error)
	Close() error
}

var _ Store = (*File)(nil)

// Direct reports whether the page cache is bypassed.
func (f *File) Direct() bool { return f.direct }

// Emptied reports whether blocks were discarded on opening: the slabs had another size, an earlier
// version wrote the file, or its name was damaged.
func (f *File) Emptied() bool { return f.emptied }

// UnreadSectors returns the number of slab names and slot headers that the disk could not read on
// opening. Their slots count as empty.
func (f *File) UnreadSectors() int { return f.unread }

// at returns the offset of a slot, slabAt that of a slab.
func (f *File) at(slot int32, bytes int) int64 { return sector + f.cut.Offset(slot, bytes) }
func (f *File) slabAt(slab int) int64          { return sector + int64(slab)*int64(f.cut.Bytes) }

// Depth implements Store.
func (f *File) Depth() int { return cap(f.buffers) }

// Write implements Store.
func (f *File) Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return f.Fill(ctx, slot, h, len(block), func(into []byte) error { copy(into, block); return nil })
}

// Fill writes header and block into a slot with one write. The context ends the wait for a buffer,
// not the write.
func (f *File) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	b, err := f.beginWrite(ctx, slot, bytes)
	if err != nil {
		return err
	}
	defer f.endWrite(b)
	end := sector + bytes
	block := b.bytes[sector:end:end]
	if err := from(block); err != nil {
		return err
	}
	s, l, err := f.claim(slot, bytes, func(slab, bytes int) error { return f.writeSlabName(b, slab, bytes) })
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
	head.sums = nil // they are read with the block
	l.set(head)
	return nil
}

func (l *label) set(head header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = head
}

// writeSlabName assigns a slab on the disk to blocks of the given size, and empties it.
func (f *File) writeSlabName(b *buffer, slab, bytes int) error {
	putName(b.bytes, slabMagic, bytes, f.sequence.Add(1))
	return f.write(b.bytes[:sector], f.slabAt(slab))
}

// Erase renames slabs that hold nothing else, and overwrites the headers of slots in others.
func (f *File) Erase(ctx context.Context, slots []int32) error {
	b, err := f.beginWrite(ctx, 0, 1)
	if err != nil {
		return err
	}
	defer f.endWrite(b)
	bySlab := make(map[int][]int32)
	for _, slot := range slots {
		i, _ := f.cut.Locate(slot)
		bySlab[i] = append(bySlab[i], slot)
	}
	for _, i := range slices.Sorted(maps.Keys(bySlab)) {
		if err := errors.Join(ctx.Err(), f.erase(b, i, bySlab[i])); err != nil {
			return err
		}
	}
	return nil
}

// erase waits for writes to a slab that are in flight, so that none of them gets an older sequence
// than the slab's name.
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
		return f.writeSlabName(b, i, s.bytes)
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

// Read implements Store. After it returns, block is not written to.
func (f *File) Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return f.View(ctx, slot, h, len(block), func(read []byte) error { copy(block, read); return nil })
}

// View implements Store. It returns when the context ends, even if the disk takes longer.
func (f *File) View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func([]byte) error) error {
	return f.ViewRange(ctx, &Reading{Slot: slot, Hash: h, Bytes: bytes}, 0, bytes, use)
}

// ViewRange implements Store. It reads the header with the first range, in the same access if that
// range starts the block.
func (f *File) ViewRange(ctx context.Context, r *Reading, from, to int, use func([]byte) error) error {
	if err := r.check(from, to); err != nil {
		return err
	}
	b, err := f.acquire(ctx, r.Slot, r.Bytes)
	if err != nil {
		return err
	}
	buffer := b.bytes
	lo, hi := r.wholePieces(from, to)
	read, headed := make(chan error, 1), r.sums != nil
	go func() {
		select {
		case f.diskSlots <- struct{}{}:
			read <- f.read(buffer, f.at(r.Slot, r.Bytes), lo, hi, headed)
			<-f.diskSlots // released before the checksum, so that the next access can start
		case <-ctx.Done():
			read <- ctx.Err()
		}
	}()
	select {
	case err = <-read:
		if err == nil && !headed {
			err = r.parseSums(buffer)
		}
		if err == nil {
			err = r.verify(buffer[sector+lo:sector+hi], lo)
		}
		if err == nil {
			err = use(buffer[sector+from : sector+to : sector+to])
		}
		f.buffers <- b
	case <-ctx.Done():
		go func() { <-read; f.buffers <- b }()
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("read slot %d of %s: %w", r.Slot, f.cfg.Path, err)
	}
	return nil
}

// read fills the part of a buffer for bytes [lo, hi) of the block at an offset, and the header
// unless it is known. It needs no lock, since the checksums reveal a concurrent change.
func (f *File) read(buffer []byte, at int64, lo, hi int, headed bool) error {
	begin := sector + lo
	if !headed && lo == 0 {
		begin = 0
	} else if !headed {
		if _, err := f.disk.ReadAt(buffer[:sector], at); err != nil {
			return asDamaged(err)
		}
	}
	_, err := f.disk.ReadAt(buffer[begin:sector+sectors(hi)], at+int64(begin))
	return asDamaged(err)
}

// asDamaged maps read errors of the disk to ErrDamaged, so that the block is not tried again.
func asDamaged(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", err, ErrDamaged)
}

// parseSums takes the checksums from a slot's header, if the slot holds the block.
func (r *Reading) parseSums(read []byte) error {
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

// Close waits for reads and writes in flight and closes the file. No other method may run during or
// after Close.
func (f *File) Close() error {
	var errs []error
	for range cap(f.buffers) {
		errs = append(errs, (<-f.buffers).free())
	}
	close(f.buffers)
	return errors.Join(append(errs, f.disk.Close())...)
}
