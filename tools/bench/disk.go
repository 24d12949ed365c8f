package main

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"
)

// bareDisk reads and writes a file past the page cache without further work.
type bareDisk struct {
	file    *os.File
	size    int
	memory  []byte
	buffers [][]byte
}

func openBare(path string, size int) (_ *bareDisk, err error) {
	d := &bareDisk{size: size, buffers: make([][]byte, tierDepth)}
	if d.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_DIRECT, 0o600); err != nil {
		return nil, err
	}
	const hugePage = 2 << 20 // like the tier's buffers: a disk is faster with contiguous memory
	stride := (size + hugePage - 1) / hugePage * hugePage
	if d.memory, err = unix.Mmap(
		-1, 0, tierDepth*stride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE,
	); err != nil {
		return nil, err
	}
	_ = unix.Madvise(d.memory, unix.MADV_HUGEPAGE)
	noise(d.memory)
	for i := range d.buffers {
		d.buffers[i] = d.memory[i*stride : i*stride+size]
	}
	return d, unix.Fallocate(int(d.file.Fd()), 0, 0, int64(tierBlocks*size))
}

// each applies do to every block of the file. Each worker takes the next block when it is done,
// like the moves of a tier.
func (d *bareDisk) each(do func(b []byte, at int64) (int, error)) error {
	errs := make([]error, tierDepth)
	var next atomic.Int64
	var wait sync.WaitGroup
	for w := range tierDepth {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < tierBlocks && errs[w] == nil; i = next.Add(1) - 1 {
				_, errs[w] = do(d.buffers[w], i*int64(d.size))
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// readAndSum reads into a buffer and sums its bytes.
func (d *bareDisk) readAndSum(b []byte, at int64) (int, error) {
	n, err := d.file.ReadAt(b, at)
	_ = xxh3.Hash(b)
	return n, err
}

func (d *bareDisk) close() {
	_ = d.file.Close()
	_ = unix.Munmap(d.memory)
}
