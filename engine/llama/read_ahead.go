package llama

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"troupe/engine/directio"
	"troupe/modelfile/digest"
)

const (
	// aheadBytes are read at once, and are what is hashed at once.
	aheadBytes = digest.ChunkBytes
	// maxHashed bounds the chunks that are hashed at once. More processors hash faster than any disk
	// reads.
	maxHashed = 8
	// moreAhead is the number of chunks beyond those that are being hashed: two are read, so that the
	// disk is never idle, and one is in use by the reader.
	moreAhead = 3
)

// readAhead reads files from the first byte to the last, ahead of its reader, so that a disk is busy
// while the bytes that it has delivered are hashed, converted and copied. A file that is not in the
// page cache is read past it, if its file system has O_DIRECT.
//
// Each chunk has a goroutine, which reads and hashes it. The reader may use the chunk as soon as it
// is read. Its buffer is free again once both are done with it.
type readAhead struct {
	free    chan []byte
	next    chan *chunk // in order, closed behind the last one
	stop    chan struct{}
	running sync.WaitGroup // all goroutines of the open file
	size    int64
	all     []*chunk // set by run; complete when running is done
	current *chunk   // whose rest is unread
	rest    []byte
	open    bool
}

// chunk is a chunk of the open file.
type chunk struct {
	buffer []byte
	users  atomic.Int32  // of buffer
	read   chan struct{} // closed when bytes or err is set
	bytes  []byte
	err    error
	hash   digest.Chunk // set before the goroutine of the chunk ends
}

func newReadAhead() *readAhead {
	r := &readAhead{free: make(chan []byte, min(maxHashed, runtime.GOMAXPROCS(0))+moreAhead)}
	for range cap(r.free) {
		r.free <- nil // allocated when it is needed
	}
	return r
}

// begin starts to read a file of the given size, which must not be closed before close. With quick, only
// the checksum of its content is computed.
func (r *readAhead) begin(f *os.File, size int64, quick bool) {
	r.size, r.all, r.open = size, nil, true
	r.next, r.stop = make(chan *chunk, cap(r.free)), make(chan struct{})
	direct := &atomic.Bool{}
	direct.Store(directio.Set(f, !directio.Cached(f)))
	r.running.Go(func() { r.run(f, direct, quick) })
}

func (r *readAhead) run(f *os.File, direct *atomic.Bool, quick bool) {
	defer close(r.next)
	for at := int64(0); at < r.size; at += aheadBytes {
		c := &chunk{read: make(chan struct{})}
		select {
		case c.buffer = <-r.free:
		case <-r.stop:
			return
		}
		if c.buffer == nil {
			c.buffer = directio.Buffer(aheadBytes)
		}
		c.users.Store(2)
		r.all = append(r.all, c)
		r.next <- c // has room for all buffers
		r.running.Go(func() {
			c.fill(f, at, min(aheadBytes, r.size-at), direct)
			if c.err == nil {
				c.hash = digest.ChunkOf(c.bytes, quick)
			}
			r.release(c)
		})
	}
}

// fill reads n bytes at an offset.
func (c *chunk) fill(f *os.File, at, n int64, direct *atomic.Bool) {
	defer close(c.read)
	for {
		past := direct.Load()
		got, err := f.ReadAt(c.buffer, at)
		switch {
		case int64(got) >= n:
			c.bytes = c.buffer[:n]
		case past && errors.Is(err, unix.EINVAL): // the file system cannot do it after all
			direct.Store(directio.Set(f, false))
			continue
		case errors.Is(err, io.EOF):
			c.err = io.ErrUnexpectedEOF
		default:
			c.err = err
		}
		return
	}
}

// release gives a buffer back after its last use.
func (r *readAhead) release(c *chunk) {
	if c.users.Add(-1) == 0 {
		r.free <- c.buffer
	}
}

// Read implements io.Reader.
func (r *readAhead) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		r.giveBack()
		c, more := <-r.next
		if !more {
			return 0, io.EOF
		}
		<-c.read
		r.current, r.rest = c, c.bytes
		if c.err != nil {
			return 0, c.err
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *readAhead) giveBack() {
	if r.current != nil {
		r.release(r.current)
		r.current, r.rest = nil, nil
	}
}

// content returns the content of the file, all of which has been read.
func (r *readAhead) content() digest.Content {
	r.running.Wait()
	hashes := make([]digest.Chunk, len(r.all))
	for i, c := range r.all {
		hashes[i] = c.hash
	}
	return digest.Join(r.size, hashes)
}

// close ends the reading of a file, and waits for reads in flight.
func (r *readAhead) close() {
	if !r.open {
		return
	}
	r.open = false
	close(r.stop)
	r.giveBack()
	for c := range r.next {
		r.release(c)
	}
	r.running.Wait()
	r.all = nil
}
