package modelfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Files are files of a folder in memory, by their names.
type Files map[string]File

// File is a file in memory.
type File struct {
	Content  []byte
	Modified time.Time
}

// Bytes returns the size of all files.
func (f Files) Bytes() (n int64) {
	for _, file := range f {
		n += int64(len(file.Content))
	}
	return n
}

// InMemory returns Roots with one folder, whose files are in memory. They can be read with Read, but
// not opened.
func InMemory(dir string, files Files) Roots { return Roots{memory: &memory{dir, files}} }

type memory struct {
	dir   string
	files Files
}

// find returns a file, or an error like that of a missing file.
func (m *memory) find(path string) (File, error) {
	f, ok := m.files[filepath.Base(path)]
	if !ok || filepath.Dir(path) != filepath.Clean(m.dir) {
		return File{}, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	return f, nil
}

func (m *memory) read(path string, most MaxBytes) ([]byte, error) {
	f, err := m.find(path)
	if err == nil && int64(len(f.Content)) > int64(most) {
		err = tooLarge(path, most)
	}
	return f.Content, err
}

func (m *memory) stat(path string) (fs.FileInfo, error) {
	f, err := m.find(path)
	return memoryInfo{filepath.Base(path), f}, err
}

func (m *memory) open(path string) (*os.File, error) {
	_, err := m.find(path)
	if err == nil {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	return nil, err
}

type memoryInfo struct {
	name string
	file File
}

func (i memoryInfo) Name() string       { return i.name }
func (i memoryInfo) Size() int64        { return int64(len(i.file.Content)) }
func (i memoryInfo) Mode() fs.FileMode  { return 0o444 }
func (i memoryInfo) ModTime() time.Time { return i.file.Modified }
func (i memoryInfo) IsDir() bool        { return false }
func (i memoryInfo) Sys() any           { return nil }
