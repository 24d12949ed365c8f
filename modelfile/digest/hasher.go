package digest

import (
	"runtime"
	"sync"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"
)

// ChunkBytes is the size of all chunks of a file except the last. Changing it changes every digest.
const ChunkBytes = 4 << 20

// maxWorkers bounds the chunks of one file that are hashed at once. More workers are faster than
// any disk.
const maxWorkers = 8

// Content identifies the bytes of a file.
type Content struct {
	Sum   Sum
	Check uint64 // XXH3 of the whole file
}

// Of returns the content of a file in memory.
func Of(b []byte) Content {
	var sums []Sum
	for rest := b; len(rest) > 0; {
		n := min(len(rest), ChunkBytes)
		sums = append(sums, blake3.Sum256(rest[:n]))
		rest = rest[n:]
	}
	return Content{Sum: fileSum(int64(len(b)), sums), Check: xxh3.Hash(b)}
}

// Hasher computes the content of files, one at a time, from their bytes in order. It is not safe
// for concurrent use.
type Hasher struct {
	workers   int
	free      chan []byte // unused chunks
	allocated int         // number of allocated chunks
	chunk     []byte      // being filled
	sums      []*Sum
	size      int64
	running   sync.WaitGroup
	check     xxh3.Hasher
	quick     bool // compute only the checksum
}

// NewHasher returns a hasher with the given number of workers; 0 means one per processor, up to
// maxWorkers.
func NewHasher(workers int) *Hasher {
	if workers == 0 {
		workers = min(maxWorkers, runtime.GOMAXPROCS(0))
	}
	return &Hasher{workers: workers, free: make(chan []byte, workers+1)}
}

// Begin starts a file. With quick, only the checksum is computed.
func (h *Hasher) Begin(quick bool) {
	h.running.Wait()
	if h.chunk != nil {
		h.free <- h.chunk[:0]
	}
	h.chunk, h.sums, h.size, h.quick = nil, nil, 0, quick
	h.check.Reset()
}

// Write adds the next bytes of the file. It blocks while all workers are busy.
func (h *Hasher) Write(b []byte) (int, error) {
	_, _ = h.check.Write(b) // never fails
	h.size += int64(len(b))
	for rest := b; len(rest) > 0 && !h.quick; {
		if h.chunk == nil {
			h.chunk = h.takeChunk()
		}
		n := min(len(rest), ChunkBytes-len(h.chunk))
		h.chunk, rest = append(h.chunk, rest[:n]...), rest[n:]
		if len(h.chunk) == ChunkBytes {
			h.dispatch()
		}
	}
	return len(b), nil
}

// End returns the content of the bytes written since Begin; with quick, only the checksum.
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
	c.Sum = fileSum(h.size, sums)
	return c
}

// takeChunk returns an empty chunk. It blocks until a worker frees one, if all are in use.
func (h *Hasher) takeChunk() []byte {
	if h.allocated <= h.workers && len(h.free) == 0 {
		h.allocated++
		return make([]byte, 0, ChunkBytes)
	}
	return <-h.free
}

// dispatch passes the current chunk to a worker.
func (h *Hasher) dispatch() {
	chunk, sum := h.chunk, new(Sum)
	h.chunk, h.sums = nil, append(h.sums, sum)
	h.running.Go(func() {
		*sum = blake3.Sum256(chunk)
		h.free <- chunk[:0]
	})
}
