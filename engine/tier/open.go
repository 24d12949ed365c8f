package tier

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"troupe/core/spec"
)

const defaultDepth = 8

// OpenFile opens a File, takes its disk space, and learns from its headers what it holds. The blocks themselves are checked when they
// are read.
func OpenFile(cfg FileConfig) (*File, error) {
	if cfg.Depth == 0 {
		cfg.Depth = defaultDepth
	}
	if cfg.Slots < 1 || cfg.SlotBytes < 1 {
		return nil, fmt.Errorf("tier file %s: %d slots of %d bytes; it needs at least one of each", cfg.Path, cfg.Slots, cfg.SlotBytes)
	}
	file, direct, err := openPastCache(cfg)
	if err != nil {
		return nil, fmt.Errorf("tier file: %w", err)
	}
	f := &File{cfg: cfg, disk: file, direct: direct, turns: make(chan []byte, cfg.Depth)}
	if err := f.prepare(file); err != nil {
		return nil, errors.Join(fmt.Errorf("tier file %s: %w", cfg.Path, err), file.Close())
	}
	f.heads = make([]header, cfg.Slots)
	if err := f.scan(); err != nil {
		return nil, errors.Join(fmt.Errorf("tier file %s: %w", cfg.Path, err), file.Close())
	}
	if err := f.makeBuffers(); err != nil {
		return nil, errors.Join(fmt.Errorf("tier file %s: %w", cfg.Path, err), file.Close())
	}
	return f, nil
}

// makeBuffers makes one for each read or write at once.
func (f *File) makeBuffers() (err error) {
	stride := f.cfg.stride()
	all := f.cfg.Depth * stride
	memory := make([]byte, all+sector)
	if f.cfg.AllocHost != nil {
		if f.memory, err = f.cfg.AllocHost(int64(all + sector)); err != nil {
			return err
		}
		memory = f.memory.Bytes()
	}
	memory = fromSector(memory)
	for i := range f.cfg.Depth {
		f.turns <- memory[i*stride : (i+1)*stride : (i+1)*stride]
	}
	return nil
}

// SlotBytes is the size of the slots of a file that OpenFile made; 0 where there is none.
func SlotBytes(path string) int {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	name := make([]byte, sector)
	if _, err := io.ReadFull(file, name); err != nil {
		return 0
	}
	bytes, _, _ := parseName(name)
	return bytes
}

// openPastCache opens a file with O_DIRECT where its file system takes that.
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

// prepare makes sure that the file is ours and has all its space.
func (f *File) prepare(file *os.File) error {
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another process has it; give each node a file of its own: %w", err)
	}
	name := aligned(sector)
	n, err := file.ReadAt(name, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	slotBytes, old, ok := parseName(name[:n])
	if !ok {
		return errors.New("it holds something else; remove it, or name another")
	}
	if old || slotBytes != f.cfg.SlotBytes {
		f.emptied = n > 0
		if err := file.Truncate(0); err != nil {
			return err
		}
		putName(name, f.cfg.SlotBytes)
		if _, err := file.WriteAt(name, 0); err != nil {
			return err
		}
	}
	return allocate(file, f.cfg.at(int32(f.cfg.Slots)))
}

// allocate makes the file of that size, and takes its space on the disk. On a file system that can not do that, writes may fail later.
func allocate(file *os.File, bytes int64) error {
	before, err := file.Stat()
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, bytes)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		err = fmt.Errorf("no room for its %s; free disk space, or make the tier smaller: %w", spec.FormatBytes(bytes), err)
		return errors.Join(err, file.Truncate(before.Size()))
	}
	return file.Truncate(bytes)
}

// scan reads all headers.
func (f *File) scan() error {
	errs := make([]error, f.cfg.Depth)
	var readers sync.WaitGroup
	for r := range f.cfg.Depth {
		readers.Go(func() {
			b := aligned(sector)
			for slot := r; slot < f.cfg.Slots && errs[r] == nil; slot += f.cfg.Depth {
				_, errs[r] = f.disk.ReadAt(b, f.cfg.at(int32(slot)))
				if h, ok := parseHeader(b); ok && h.length <= f.cfg.SlotBytes {
					h.sums = nil
					f.heads[slot] = h
				}
			}
		})
	}
	readers.Wait()
	for _, h := range f.heads {
		f.sequence = max(f.sequence, h.sequence)
	}
	return errors.Join(errs...)
}
