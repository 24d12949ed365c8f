package llama

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"troupe/engine/directio"
)

const (
	aheadBytes   = 4 << 20 // read at once
	aheadBuffers = 3       // one is read into, one is full, and one is in use
)

// readAhead reads files from the first byte to the last, ahead of its reader, so that a disk is busy
// while the bytes that it has delivered are converted and copied. A file that is not in the page
// cache is read past it, if its file system has O_DIRECT.
type readAhead struct {
	free    chan []byte
	full    chan []byte // closed at the end of the file
	stop    chan struct{}
	err     error // why full is closed early
	file    *os.File
	buffer  []byte // whose rest is unread
	rest    []byte
	running bool
}

func newReadAhead() *readAhead {
	r := &readAhead{free: make(chan []byte, aheadBuffers)}
	for range aheadBuffers {
		r.free <- directio.Buffer(aheadBytes)
	}
	return r
}

// begin starts to read a file, which must not be closed before close.
func (r *readAhead) begin(f *os.File) {
	r.file, r.full, r.stop, r.err = f, make(chan []byte, aheadBuffers), make(chan struct{}), nil
	r.running = true
	go r.run(f, directio.Set(f, !directio.Cached(f)), r.full, r.stop)
}

func (r *readAhead) run(f *os.File, direct bool, full chan<- []byte, stop <-chan struct{}) {
	defer close(full)
	for at := int64(0); ; {
		var b []byte
		select {
		case b = <-r.free:
		case <-stop:
			return
		}
		n, err := f.ReadAt(b[:aheadBytes], at)
		if direct && errors.Is(err, unix.EINVAL) { // the file system cannot do it after all
			direct = directio.Set(f, false)
			n, err = f.ReadAt(b[:aheadBytes], at)
		}
		at += int64(n)
		full <- b[:n] // has room for all buffers
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
			return
		}
	}
}

// Read implements io.Reader.
func (r *readAhead) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		r.giveBack()
		next, more := <-r.full
		if !more {
			if r.err != nil {
				return 0, r.err
			}
			return 0, io.EOF
		}
		r.buffer, r.rest = next, next
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *readAhead) giveBack() {
	if r.buffer != nil {
		r.free <- r.buffer[:aheadBytes]
		r.buffer, r.rest = nil, nil
	}
}

// close ends the reading of a file, and waits for a read in flight.
func (r *readAhead) close() {
	if !r.running {
		return
	}
	r.running = false
	close(r.stop)
	r.giveBack()
	for b := range r.full {
		r.free <- b[:aheadBytes]
	}
}
