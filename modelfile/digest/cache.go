package digest

import (
	"io/fs"
	"sync"
	"syscall"
	"time"
)

// Stamp is what the file system shows of a file. A file with another stamp is taken for another file.
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

// tick is how coarse the clock of file systems may be: a file that was written within one before it was read may be
// written again and keep its stamp.
const tick = 20 * time.Millisecond

// Cache keeps the contents of files by their path and stamp. A nil cache keeps nothing. It is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	files map[string]kept
}

type kept struct {
	stamp   Stamp
	content Content
}

// Find returns the content of a file with that stamp, if it is known.
func (c *Cache) Find(path string, s Stamp) (Content, bool) {
	if c == nil {
		return Content{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.files[path]
	return k.content, ok && k.stamp == s
}

// Changed reports whether a file was read when it had another stamp, and not since.
func (c *Cache) Changed(path string, s Stamp) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.files[path]
	return ok && k.stamp != s
}

// Put keeps the content of a file that had the stamp from before it was read until afterwards. Read is when
// that began. A file that had just been written then is not kept.
func (c *Cache) Put(path string, s Stamp, content Content, read time.Time) {
	if c == nil || s.CTime > read.Add(-tick).UnixNano() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = make(map[string]kept)
	}
	c.files[path] = kept{s, content}
}

// Forget drops a file whose content was found to be another.
func (c *Cache) Forget(path string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.files, path)
}
