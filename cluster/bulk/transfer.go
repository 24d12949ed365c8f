package bulk

import (
	"fmt"
	"hash"
	"slices"
	"sync"
	"time"
)

const (
	idBytes    = 16
	tokenBytes = 32
)

type transferID [idBytes]byte

// refusal is the reason why a transfer accepts nothing more.
type refusal struct {
	code uint32
	text string
}

// inboundStream is a stream of a connection.
type inboundStream struct {
	from   *inbound
	number uint32
}

// chunk is a received chunk that waits for put or is in it.
type chunk struct {
	inboundStream
	index  uint32
	cost   int // window space; 0 once released. Guarded by from.mu
	length int
	buf    []byte // has room for the largest chunk and the next header
}

// transfer is an incoming transfer that this node expects. A goroutine calls put while chunks are
// queued, and only then.
type transfer struct {
	id         transferID
	token      [tokenBytes]byte
	chunkBytes int
	chunks     uint32
	put        func(index uint32, b []byte) error
	// hash of a sealed chunk without its seal; nil if chunks have none
	seal  func(index uint32, bytes int) hash.Hash64
	plane *Plane

	mu         sync.Mutex
	streams    []inboundStream // open
	done       []uint64        // bit i: chunk i was put
	queue      []*chunk
	current    *chunk // chunk in put
	putSince   time.Time
	lastActive time.Time // when a chunk last arrived or was put
	ended      *refusal
	putting    bool      // a goroutine is putting chunks
	idle       sync.Cond // signals that this goroutine has ended
}

// open adds a stream, unless the transfer has ended.
func (t *transfer) open(s inboundStream) *refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.streams, t.lastActive = append(t.streams, s), t.plane.now()
	}
	return t.ended
}

func (t *transfer) close(s inboundStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams = slices.DeleteFunc(t.streams, func(one inboundStream) bool { return one == s })
}

// enqueue queues a chunk for put, unless it is damaged.
func (t *transfer) enqueue(c *chunk, intact bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		c.from.release(c)
		return
	}
	t.lastActive = t.plane.now()
	if !intact {
		t.plane.received.damaged.Add(1)
		c.from.release(c)
		c.from.queueAck(c.number, c.index, damaged)
		t.plane.buffers.put(c.buf)
		return
	}
	t.queue = append(t.queue, c)
	if !t.putting {
		t.putting = true
		t.plane.cfg.Runtime.Go(t.runPuts)
	}
}

// runPuts puts chunks until none are queued.
func (t *transfer) runPuts() {
	for {
		c, fresh := t.nextChunk()
		if c == nil {
			return
		}
		var err error
		if fresh {
			err = t.put(c.index, c.buf[:c.length])
		}
		t.putDone(c, fresh, err)
	}
}

// nextChunk returns the next chunk. fresh reports whether the chunk was not put before.
func (t *transfer) nextChunk() (c *chunk, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.putting = false
		t.idle.Broadcast()
		return nil, false
	}
	c = t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	t.current, t.putSince = c, t.plane.now()
	return c, t.done[c.index/64]&(1<<(c.index%64)) == 0
}

// putDone answers for a chunk, unless the transfer has ended meanwhile.
func (t *transfer) putDone(c *chunk, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current, t.lastActive = nil, t.plane.now()
	if err == nil {
		t.done[c.index/64] |= 1 << (c.index % 64)
		t.plane.received.count(c, fresh)
	} else {
		t.end(refusal{refusedSink, fmt.Sprintf("chunk %d: %v", c.index, err)})
	}
	c.from.release(c)
	if t.ended == nil {
		c.from.queueAck(c.number, c.index, acked)
	}
	t.plane.buffers.put(c.buf)
}

// end refuses all streams and drops queued chunks. It also releases the window space of the chunk
// in put. t.mu is held.
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
	for _, s := range t.streams {
		s.from.refuse(s.number, why)
	}
	t.streams = nil
}

// stop ends the transfer and waits for put.
func (t *transfer) stop(why refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(why)
	for t.putting {
		t.idle.Wait()
	}
}

// dropFrom drops the queued chunks of a lost connection; the sender repeats them over another one.
func (t *transfer) dropFrom(from *inbound) {
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
	t.streams = slices.DeleteFunc(t.streams, func(s inboundStream) bool { return s.from == from })
}

// check ends the transfer if its put hangs or it has expired, and reports the latter.
func (t *transfer) check(now time.Time, expireAfter, sinkTimeout time.Duration) (expired bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && now.Sub(t.putSince) > sinkTimeout {
		t.end(refusal{refusedSink, fmt.Sprintf("chunk %d: put took longer than %s", t.current.index, sinkTimeout)})
	}
	if t.putting || now.Sub(t.lastActive) <= expireAfter {
		return false
	}
	t.end(refusal{refusedUnknown, fmt.Sprintf("transfer expired: no chunk for %s", expireAfter)})
	return true
}
