package kvstore

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"troupe/core/kv"
	"troupe/core/units"
)

const defaultDepth = 8

// OpenFile opens a File, allocates its disk space, and reads its headers. Blocks are verified when
// they are read.
func OpenFile(cfg FileConfig) (*File, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if err := CheckPath(cfg.Path); err != nil {
		return nil, fmt.Errorf("tier file %s: %w", cfg.Path, err)
	}
	file, direct, err := openPastCache(cfg)
	if err != nil {
		return nil, fmt.Errorf("tier file: %w", err)
	}
	f := newFile(cfg, file)
	f.direct = direct
	if err := f.prepare(file); err != nil {
		return nil, errors.Join(fmt.Errorf("tier file %s: %w", cfg.Path, err), file.Close())
	}
	f.scan()
	return f, nil
}

// OpenDisk opens a File on a disk instead of the file at cfg.Path, which only names it. The disk must
// have space for Bytes, is used by nothing else, and is emptied if it holds no File with such slabs.
func OpenDisk(cfg FileConfig, disk Disk) (*File, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	f := newFile(cfg, disk)
	name := aligned(sector)
	if _, err := disk.ReadAt(name, 0); err != nil {
		return nil, fmt.Errorf("tier file %s: %w", cfg.Path, err)
	}
	if bytes, _, ok := parseName(name, fileMagic); !ok || bytes != cfg.Slabs.Bytes {
		f.emptied = true
		for i := range cfg.Slabs.Count {
			if err := f.write(make([]byte, sector), f.slabAt(i)); err != nil {
				return nil, err
			}
		}
		putName(name, fileMagic, cfg.Slabs.Bytes, 0)
		if err := f.write(name, 0); err != nil {
			return nil, err
		}
	}
	f.scan()
	return f, nil
}

// complete fills in the defaults.
func (cfg FileConfig) complete() (FileConfig, error) {
	if cfg.Depth == 0 {
		cfg.Depth = defaultDepth
	}
	cfg.Slabs.SlabHeader, cfg.Slabs.SlotHeader = sector, sector
	if cfg.Slabs.Count < 1 || cfg.Slabs.Fit(1) < 1 {
		return cfg, fmt.Errorf("tier file %s: %d slabs of %d bytes; set at least one slab that fits a block",
			cfg.Path, cfg.Slabs.Count, cfg.Slabs.Bytes)
	}
	if cfg.Slabs.Count > math.MaxInt32/(cfg.Slabs.Bytes/kv.SlotUnit) {
		return cfg, fmt.Errorf("tier file %s: %d slabs of %d bytes have too many slots; make it smaller than 8 TiB",
			cfg.Path, cfg.Slabs.Count, cfg.Slabs.Bytes)
	}
	return cfg, nil
}

// Bytes returns the size of the file.
func (cfg FileConfig) Bytes() int64 { return sector + int64(cfg.Slabs.Count)*int64(cfg.Slabs.Bytes) }

// newFile returns a File without slabs, which scan adds: a file that is refused has none.
func newFile(cfg FileConfig, disk Disk) *File {
	f := &File{
		table:     table{cut: cfg.Slabs},
		cfg:       cfg,
		disk:      disk,
		buffers:   make(chan *buffer, cfg.Depth+(cfg.Depth+1)/2),
		diskSlots: make(chan struct{}, cfg.Depth),
	}
	for range cap(f.buffers) {
		f.buffers <- &buffer{}
	}
	return f
}

// CheckPath returns an error if the path exists but is not a regular file or holds other data than
// a tier.
func CheckPath(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file; set the path of a file, which is created if absent")
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	name := make([]byte, len(fileMagic))
	n, err := io.ReadFull(file, name)
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case n > 0 && !isTierFile(name[:n]):
		return errors.New("file holds other data; remove it or set another path")
	}
	return nil
}

// openPastCache opens a file, with O_DIRECT if the file system supports it.
func openPastCache(cfg FileConfig) (*os.File, bool, error) {
	const flags = os.O_RDWR | os.O_CREATE
	if !cfg.noDirect {
		if f, err := os.OpenFile(cfg.Path, flags|unix.O_DIRECT, 0o600); err == nil {
			return f, true, nil
		}
	}
	f, err := os.OpenFile(cfg.Path, flags, 0o600)
	return f, false, err
}

// prepare checks that the file is a tier's and allocates its space.
func (f *File) prepare(file *os.File) error {
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("in use by another process; set a separate file for each node: %w", err)
	}
	name := aligned(sector)
	n, err := file.ReadAt(name, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	name = name[:n:sector]
	slabBytes, _, ok := parseName(name, fileMagic)
	if ok && slabBytes == f.cut.Bytes {
		return allocate(file, f.slabAt(f.cut.Count))
	}
	before, err := file.Stat()
	if err != nil {
		return err
	}
	f.emptied = n > 0 && before.Size() != sector // a file of one sector was never completed
	if err := file.Truncate(0); err != nil {
		return err
	}
	name = name[:sector]
	putName(name, fileMagic, f.cut.Bytes, 0)
	if _, err := file.WriteAt(name, 0); err != nil {
		return err
	}
	if err := allocate(file, f.slabAt(f.cut.Count)); err != nil {
		return err
	}
	return file.Sync() // a file of that size without its name would count as foreign
}

// isTierFile reports whether a file belongs to a tier, given its first sector, which may be damaged
// or truncated.
func isTierFile(name []byte) bool {
	magic := string(name[:min(len(name), len(fileMagic))])
	return magic == fileMagic || slices.Contains(oldMagics, magic)
}

// allocate sets the file's size and allocates its disk space. If the file system does not support
// that, writes may fail later.
func allocate(file *os.File, bytes int64) error {
	before, err := file.Stat()
	if err != nil {
		return err
	}
	if err = hasSpace(file, bytes-before.Size()); err == nil {
		err = unix.Fallocate(int(file.Fd()), 0, 0, bytes)
	}
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		err = fmt.Errorf("no space for %s; free disk space or reduce the tier: %w", units.FormatBytes(bytes), err)
		return errors.Join(err, file.Truncate(before.Size()))
	}
	return file.Truncate(bytes)
}

// hasSpace returns ENOSPC if the file cannot grow by a number of bytes. A failed Fallocate fills the
// disk first on some file systems, and other programs fail meanwhile.
func hasSpace(file *os.File, bytes int64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil || fs.Blocks == 0 || bytes <= 0 {
		return nil // Fallocate decides; some file systems do not count their blocks
	}
	if blocks := uint64(bytes) / uint64(fs.Bsize); blocks > fs.Bavail {
		return unix.ENOSPC
	}
	return nil
}

// scan reads the names of all slabs and the headers of their slots. Unreadable ones count as
// absent.
func (f *File) scan() {
	f.slabs = make([]slab, f.cut.Count)
	latest, unread := make([]uint64, f.cfg.Depth), make([]int, f.cfg.Depth)
	var readers sync.WaitGroup
	for r := range f.cfg.Depth {
		readers.Go(func() {
			b := aligned(sector)
			for i := r; i < f.cut.Count; i += f.cfg.Depth {
				last, failed := f.scanSlab(b, i)
				latest[r], unread[r] = max(latest[r], last), unread[r]+failed
			}
		})
	}
	readers.Wait()
	f.sequence.Store(slices.Max(latest))
	for _, n := range unread {
		f.unread += n
	}
}

// scanSlab returns the latest sequence found and the number of unreadable sectors.
func (f *File) scanSlab(b []byte, i int) (latest uint64, unread int) {
	if _, err := f.disk.ReadAt(b, f.slabAt(i)); err != nil {
		return 0, 1
	}
	bytes, named, ok := parseName(b, slabMagic)
	if !ok || f.cut.Fit(bytes) == 0 {
		return 0, 0
	}
	s := &f.slabs[i]
	s.bytes, s.slots, latest = bytes, make([]label, f.cut.Fit(bytes)), named
	for nth := range s.slots {
		if _, err := f.disk.ReadAt(b, f.at(f.cut.Slot(i, nth), bytes)); err != nil {
			unread++
			continue
		}
		if h, ok := parseHeader(b); ok && h.length == bytes && h.sequence > named {
			h.sums = nil
			s.slots[nth].header, latest = h, max(latest, h.sequence)
		}
	}
	return latest, unread
}
