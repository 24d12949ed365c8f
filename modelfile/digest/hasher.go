package digest

import (
	"runtime"
	"sync"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"
)

// ChunkBytes is the size of all chunks of a file but the last. Changing it changes every digest.
const ChunkBytes = 4 << 20

// maxWorkers bounds the chunks of one file that are hashed at once: a disk is not faster than so many.
const maxWorkers = 8

// Content is what a file's bytes are known by.
type Content struct {
	Sum   Sum
	Check uint64 // XXH3 of the whole file
}

// Of returns the content of a file that is in memory.
func Of(b []byte) Content {
	var sums []Sum
	for rest := b; len(rest) > 0; {
		n := min(len(rest), ChunkBytes)
		sums = append(sums, blake3.Sum256(rest[:n]))
		rest = rest[n:]
	}
	return Content{Sum: ofChunks(int64(len(b)), sums), Check: xxh3.Hash(b)}
}

// Hasher computes the content of one file after the other from their bytes, which are written in order. It
// is used by one goroutine at a time.
type Hasher struct {
	workers int
	free    chan []byte // chunks that are not in use
	made    int         // chunks that were allocated
	chunk   []byte      // the one that fills
	sums    []*Sum
	size    int64
	running sync.WaitGroup
	check   xxh3.Hasher
	quick   bool // no more than the checksum
}

// NewHasher returns a hasher with so many workers; 0: as many as there are processors, within bounds.
func NewHasher(workers int) *Hasher {
	if workers == 0 {
		workers = min(maxWorkers, runtime.GOMAXPROCS(0))
	}
	return &Hasher{workers: workers, free: make(chan []byte, workers+1)}
}

// Begin begins a file. Quick asks for no more than the checksum.
func (h *Hasher) Begin(quick bool) {
	h.running.Wait()
	if h.chunk != nil {
		h.free <- h.chunk[:0]
	}
	h.chunk, h.sums, h.size, h.quick = nil, nil, 0, quick
	h.check.Reset()
}

// Write takes the next bytes of the file. It waits while all workers are busy.
func (h *Hasher) Write(b []byte) (int, error) {
	_, _ = h.check.Write(b) // never fails
	h.size += int64(len(b))
	for rest := b; len(rest) > 0 && !h.quick; {
		if h.chunk == nil {
			h.chunk = h.take()
		}
		n := min(len(rest), ChunkBytes-len(h.chunk))
		h.chunk, rest = append(h.chunk, rest[:n]...), rest[n:]
		if len(h.chunk) == ChunkBytes {
			h.dispatch()
		}
	}
	return len(b), nil
}

// End returns the content of what was written since Begin; only the checksum, where no more was asked for.
func (h *Hasher) End() Content {
	if h.chunk != nil {
		h.dispatch()
	}
	h.running.Wait()
	c := Content{Check: h.check.Sum64()}
	if h.quick {
		return c
	}
	sums := make([]Sum, len(h.sums))
	for i, s := range h.sums {
		sums[i] = *s
	}
	c.Sum = ofChunks(h.size, sums)
	return c
}

func (h *Hasher) take() []byte {
	if h.made <= h.workers && len(h.free) == 0 {
		h.made++
		return make([]byte, 0, ChunkBytes)
	}
	return <-h.free
}

// dispatch has the chunk that is full, or the file's last, hashed by a worker.
func (h *Hasher) dispatch() {
	chunk, sum := h.chunk, new(Sum)
	h.chunk, h.sums = nil, append(h.sums, sum)
	h.running.Go(func() {
		*sum = blake3.Sum256(chunk)
		h.free <- chunk[:0]
	})
}
