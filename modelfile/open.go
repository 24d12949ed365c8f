package modelfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Most is the largest size that a file of some kind may have, in bytes. Weights may have any size.
type Most int64

const (
	Config          Most = 1 << 20 // config.json, generation_config.json, adapter_config.json
	Index           Most = 16 << 20
	TokenizerConfig Most = 16 << 20
	Tokenizer       Most = 64 << 20
	Template        Most = 128 << 10
)

// ErrNotRegular is returned for what is no regular file of a disk.
var ErrNotRegular = errors.New("not a regular file")

// find opens a regular file for no more than to describe it, and to open it for reading.
func (r Roots) find(path string) (*os.File, error) {
	place, err := open(path, unix.O_PATH)
	if err != nil {
		return nil, r.hide(path, err)
	}
	if err := r.regular(place, path); err != nil {
		place.Close()
		return nil, err
	}
	return place, nil
}

// Open opens a regular file for reading. Links are followed.
func (r Roots) Open(path string) (*os.File, error) {
	place, err := r.find(path)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	f, err := open(self(place), 0)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be read: %w", path, errors.Unwrap(err))
	}
	return f, nil
}

// self names an opened file, wherever it is now.
func self(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// open does not wait for the writer of a FIFO. With O_PATH it finds a file and does nothing to it.
func open(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|flags, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|flags, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// regular checks an opened file: its type, its file system, and that it is below a root.
func (r Roots) regular(f *os.File, path string) error {
	if err := r.below(f, path); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || fromKernel(f) {
		return fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	return nil
}

// fromKernel reports whether a file has no disk behind it: its reader may wait for ever.
func fromKernel(f *os.File) bool {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return true
	}
	switch uint32(s.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC:
		return true
	}
	return false
}

// Read reads a regular file of at most so many bytes.
func (r Roots) Read(path string, most Most) ([]byte, error) {
	f, err := r.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > int64(most) {
		return nil, tooLarge(path, most)
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && int64(len(b)) > int64(most) { // it grew
		return nil, tooLarge(path, most)
	}
	return b, err
}

func tooLarge(path string, most Most) error {
	return fmt.Errorf("%s: the file is larger than the %d bytes that %s may have", path, most, filepath.Base(path))
}

// Stat describes a regular file.
func (r Roots) Stat(path string) (fs.FileInfo, error) {
	place, err := r.find(path)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	return place.Stat()
}
