package bulk

import (
	"fmt"
	"hash"
	"maps"
	"sync"
	"time"
)

const (
	idBytes    = 16
	tokenBytes = 32
)

type transferID [idBytes]byte

// refusal is why a transfer takes nothing more.
type refusal struct {
	code uint32
	text string
}

// streamOf is a stream of a connection.
type streamOf struct {
	from   *inbound
	number uint32
}

// chunk is one that has come, and waits for put or is in it.
type chunk struct {
	streamOf
	index  uint32
	cost   int // of its connection's window; 0 once given back. Guarded by from.mu
	length int
	buf    []byte // room for the longest chunk and the next header
}

// transfer is one that this node expects. A goroutine runs put for as long as chunks are queued, and only then.
type transfer struct {
	id         transferID
	token      [tokenBytes]byte
	chunkBytes int
	chunks     uint32
	put        func(index uint32, b []byte) error
	seal       func(index uint32, bytes int) hash.Hash64 // of a sealed chunk without its seal; nil: they have none
	plane      *Plane

	mu      sync.Mutex
	streams map[streamOf]struct{} // open
	done    []uint64              // bit i: put took chunk i
	queue   []*chunk
	current *chunk // in put
	since   time.Time
	touched time.Time // when a chunk came or was put
	ended   *refusal
	working bool      // a goroutine puts chunks
	idle    sync.Cond // it has ended
}

// open adds a stream, unless the transfer has ended.
func (t *transfer) open(s streamOf) *refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.streams[s], t.touched = struct{}{}, time.Now()
	}
	return t.ended
}

func (t *transfer) close(s streamOf) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.streams, s)
}

// enqueue hands a chunk over to put, unless it was damaged.
func (t *transfer) enqueue(c *chunk, intact bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		c.from.release(c)
		return
	}
	t.touched = time.Now()
	if !intact {
		t.plane.received.damaged.Add(1)
		c.from.release(c)
		c.from.answer(c.number, c.index, damaged)
		t.plane.buffers.put(c.buf)
		return
	}
	t.queue = append(t.queue, c)
	if !t.working {
		t.working = true
		go t.work()
	}
}

// work puts chunks until there are none.
func (t *transfer) work() {
	for {
		c, fresh := t.take()
		if c == nil {
			return
		}
		var err error
		if fresh {
			err = t.put(c.index, c.buf[:c.length])
		}
		t.finish(c, fresh, err)
	}
}

// take returns the next chunk, and whether it has not been put yet.
func (t *transfer) take() (c *chunk, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.working = false
		t.idle.Broadcast()
		return nil, false
	}
	c = t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	t.current, t.since = c, time.Now()
	return c, t.done[c.index/64]&(1<<(c.index%64)) == 0
}

// finish answers for a chunk, unless the transfer has ended while put had it.
func (t *transfer) finish(c *chunk, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current, t.touched = nil, time.Now()
	if err == nil {
		t.done[c.index/64] |= 1 << (c.index % 64)
		t.plane.received.taken(c, fresh)
	} else {
		t.end(refusal{refusedSink, fmt.Sprintf("chunk %d: %v", c.index, err)})
	}
	c.from.release(c)
	if t.ended == nil {
		c.from.answer(c.number, c.index, acked)
	}
	t.plane.buffers.put(c.buf)
}

// end refuses all streams, and lets go of what is queued. The chunk in put counts no longer in its connection's window. t.mu is
// held.
func (t *transfer) end(why refusal) {
	if t.ended != nil {
		return
	}
	t.ended = &why
	if t.current != nil {
		t.current.from.release(t.current)
	}
	for _, c := range t.queue {
		c.from.release(c)
		t.plane.buffers.put(c.buf)
	}
	t.queue = nil
	for s := range t.streams {
		s.from.refuse(s.number, why)
	}
	clear(t.streams)
}

// stop ends the transfer and waits for put.
func (t *transfer) stop(why refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(why)
	for t.working {
		t.idle.Wait()
	}
}

// forget drops what a lost connection has queued; the sender brings it again over another one.
func (t *transfer) forget(from *inbound) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.queue[:0]
	for _, c := range t.queue {
		if c.from != from {
			kept = append(kept, c)
		}
	}
	clear(t.queue[len(kept):])
	t.queue = kept
	maps.DeleteFunc(t.streams, func(s streamOf, _ struct{}) bool { return s.from == from })
}

// check ends the transfer where its put hangs or it has expired, and reports the latter.
func (t *transfer) check(now time.Time, expireAfter, sinkTimeout time.Duration) (expired bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && now.Sub(t.since) > sinkTimeout {
		t.end(refusal{refusedSink, fmt.Sprintf("chunk %d: it has not been taken within %s", t.current.index, sinkTimeout)})
	}
	if t.working || now.Sub(t.touched) <= expireAfter {
		return false
	}
	t.end(refusal{refusedUnknown, fmt.Sprintf("it has expired: no chunk came for %s", expireAfter)})
	return true
}
