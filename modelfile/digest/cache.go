package digest

import (
	"io/fs"
	"sync"
	"syscall"
	"time"
)

// Stamp is the metadata that identifies a version of a file: a changed stamp means a changed file.
type Stamp struct {
	Size          int64
	MTime, CTime  int64 // ns since 1970
	Inode, Device uint64
}

// StampOf returns the stamp of a file.
func StampOf(info fs.FileInfo) Stamp {
	s := Stamp{Size: info.Size(), MTime: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.CTime, s.Inode, s.Device = sys.Ctim.Nano(), sys.Ino, uint64(sys.Dev)
	}
	return s
}

// timestampGranularity is the coarsest resolution of file timestamps. A file written within it
// before a read may be written again without a new stamp.
const timestampGranularity = 20 * time.Millisecond

// Cache maps the path and stamp of a file to its content. A nil cache stores nothing. It is safe
// for concurrent use.
type Cache struct {
	mu    sync.Mutex
	files map[string]cacheEntry
}

type cacheEntry struct {
	stamp   Stamp
	content Content
}

// Find returns the content of a file with this stamp, and whether it is known.
func (c *Cache) Find(path string, s Stamp) (Content, bool) {
	if c == nil {
		return Content{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.files[path]
	return k.content, ok && k.stamp == s
}

// Changed reports whether the file was last read with another stamp.
func (c *Cache) Changed(path string, s Stamp) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.files[path]
	return ok && k.stamp != s
}

// Put stores the content of a file whose stamp was the same before and after it was read. read is
// the time when reading began. A file written shortly before that is not stored.
func (c *Cache) Put(path string, s Stamp, content Content, read time.Time) {
	if c == nil || s.CTime > read.Add(-timestampGranularity).UnixNano() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = make(map[string]cacheEntry)
	}
	c.files[path] = cacheEntry{s, content}
}

// Forget removes a file whose content turned out to be different.
func (c *Cache) Forget(path string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.files, path)
}
