// Package directio reads files past the page cache where their file system has O_DIRECT.
package directio

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PageBytes is the alignment of offsets, sizes and memory of a read with O_DIRECT.
const PageBytes = 4 << 10

// Buffer returns memory at a page boundary.
func Buffer(bytes int) []byte {
	b := make([]byte, bytes+PageBytes)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (PageBytes - 1)
	return b[skip:][:bytes:bytes]
}

// Aligned reports whether a range of a file can be read with O_DIRECT into b.
func Aligned(b []byte, offset int64) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return (at|uintptr(len(b))|uintptr(offset))&(PageBytes-1) == 0
}

// Set sets whether a file is read past the page cache, and reports whether it is.
func Set(f *os.File, direct bool) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return false
	}
	next := flags &^ unix.O_DIRECT
	if direct {
		next |= unix.O_DIRECT
	}
	if next == flags {
		return direct
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, next)
	return err == nil && direct
}

// Cached reports whether at least half of a file is in the page cache, or whether that is not known.
func Cached(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var seen unix.Cachestat_t
	whole := unix.CachestatRange{Off: 0, Len: uint64(info.Size())}
	if err := unix.Cachestat(uint(f.Fd()), &whole, &seen, 0); err != nil {
		return true
	}
	return seen.Cache*PageBytes*2 >= uint64(info.Size())
}
