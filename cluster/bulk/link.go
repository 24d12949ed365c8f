package bulk

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection to a receiver, shared by all sends to it.
type link struct {
	peer      *peer
	conn      net.Conn
	window    int           // the receiver's, in bytes
	chunks    kind          // data, or hashed if the receiver supports it
	batches   chan *batch   // batches for the writer
	writing   chan struct{} // held while writing, by the writer or by sendInPlace
	wake      chan struct{} // unsent is not empty
	lost      chan struct{} // closed when the connection ends
	lastHeard atomic.Int64  // time of the last frame received, Unix ns

	mu         sync.Mutex
	streams    map[uint32]*sending // attached, or abandoned with chunks in flight
	lastStream uint32              // number of the last stream
	inflight   int                 // bytes of the window in use
	waiting    []*sending          // for space in the window, in order
	unsent     []byte              // queued small frames
	idleSince  time.Time           // when the last stream ended
	err        error
}

// receive reads answers until the connection ends.
func (l *link) receive() {
	r := &reader{from: bufio.NewReader(l.conn), allowed: toSender}
	b := make([]byte, maxAckBytes)
	for {
		h, err := r.next()
		var payload []byte
		if err == nil {
			payload, err = r.readSmall(h, b)
		}
		if err != nil {
			l.fail(err)
			return
		}
		l.lastHeard.Store(l.peer.plane.now().UnixNano())
		switch h.kind {
		case opened:
			l.opened(h, payload)
		case acked, damaged:
			l.handleAcks(payload, h.kind == acked)
		case refused:
			l.refused(h, string(payload))
		}
	}
}

func (l *link) opened(h header, payload []byte) {
	chunkBytes, chunks := int(binary.BigEndian.Uint32(payload)), binary.BigEndian.Uint32(payload[4:])
	if chunkBytes < 1 || chunkBytes > MaxChunkBytes || chunkBytes+frameCost > l.window {
		l.fail(fmt.Errorf("receiver opened a transfer with chunks of %d bytes", chunkBytes))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.streams[h.stream]; s != nil {
		if s.chunks = l.chunks; h.index == flagSealed {
			s.chunks = sealed
		}
		s.chunkBytes, s.batchChunks = chunkBytes, max(1, batchBytes/(headerBytes+chunkBytes))
		if last := slices.Max(s.todo); last >= chunks {
			s.failed = fmt.Errorf("%w: chunk %d of a transfer of %d chunks", ErrRefused, last, chunks)
		}
		s.wake()
	}
}

// handleAcks handles ACKED and DAMAGED entries.
func (l *link) handleAcks(entries []byte, intact bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; len(entries) >= ackBytes; entries = entries[ackBytes:] {
		s, index := l.streams[binary.BigEndian.Uint32(entries)], binary.BigEndian.Uint32(entries[4:])
		if s == nil || !s.isUnacked(index) {
			continue
		}
		l.release(s, s.cost())
		s.handleAck(index, intact)
		if !intact {
			l.peer.retries.Add(1)
		}
		if s.abandoned && len(s.unacked) == 0 {
			l.remove(s)
		}
	}
	l.grant()
}

// refused ends a stream; the receiver has dropped its chunks.
func (l *link) refused(h header, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[h.stream]
	if s == nil {
		return
	}
	s.failed = fmt.Errorf("%w: %s", ErrRefused, text)
	if h.index == refusedSink {
		s.failed = fmt.Errorf("%w: %s", ErrSink, text)
	}
	l.remove(s)
	s.wake()
	l.grant()
}

// fail closes the connection.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("%w: %w", errLost, err)
		close(l.lost)
		l.conn.Close()
	}
}

// monitor closes the connection when it is idle or the receiver is silent. It returns when ctx
// ends.
func (l *link) monitor(ctx context.Context, idleAfter, silentAfter time.Duration) {
	interval := min(idleAfter, silentAfter) / 4
	for {
		select {
		case <-l.lost:
			return
		case <-ctx.Done():
			l.fail(context.Cause(ctx))
			return
		case <-l.peer.plane.cfg.Runtime.After(interval):
		}
		if err := l.checkAlive(idleAfter, silentAfter); err != nil {
			l.fail(err)
		}
	}
}

// checkAlive returns the reason to close the connection, or nil. It pings a receiver that is silent
// for a while.
func (l *link) checkAlive(idleAfter, silentAfter time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.peer.plane.now()
	needed, silent := len(l.streams) > 0, now.Sub(time.Unix(0, l.lastHeard.Load()))
	switch {
	case !needed && now.Sub(l.idleSince) > idleAfter:
		return errors.New("idle")
	case needed && silent > silentAfter:
		return fmt.Errorf("receiver silent for %s", silentAfter)
	case needed && silent > silentAfter/4 && len(l.unsent) == 0:
		l.queueFrame(header{kind: ping}, nil)
	}
	return nil
}

// queueFrame queues a small frame. l.mu is held.
func (l *link) queueFrame(h header, payload []byte) {
	l.unsent = appendFrame(l.unsent, h, payload)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write sends small frames, and batches in the order queued. A frame that cannot be written
// completely ends the connection.
func (l *link) write() {
	var small []byte
	for {
		var t *batch
		select {
		case t = <-l.batches:
		case <-l.wake:
		case <-l.lost:
			return
		}
		l.mu.Lock()
		small, l.unsent = l.unsent, small[:0]
		l.mu.Unlock()
		select {
		case l.writing <- struct{}{}:
		case <-l.lost:
			return
		}
		_ = l.conn.SetWriteDeadline(l.peer.plane.now().Add(l.peer.plane.cfg.SilentAfter))
		var err error
		if len(small) > 0 {
			_, err = l.conn.Write(small)
		}
		if err == nil && t != nil {
			_, err = l.conn.Write(t.bytes)
		}
		<-l.writing
		if err != nil {
			l.fail(err)
			return
		}
		if t != nil {
			t.written <- struct{}{}
		}
	}
}
