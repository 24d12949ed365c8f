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

// link is a connection to a receiver, shared by all that is sent there.
type link struct {
	peer   *peer
	conn   net.Conn
	window int           // bytes, the receiver's
	chunks kind          // data, or hashed where the receiver takes it
	turns  chan *turn    // to the writer
	pen    chan struct{} // held by who writes: the writer, or who sends in place
	kick   chan struct{} // there is something in unsent
	lost   chan struct{} // closed with the connection
	heard  atomic.Int64  // when the last frame came, Unix ns

	mu       sync.Mutex
	streams  map[uint32]*sending // attached, or left with chunks in flight
	last     uint32              // stream
	inflight int                 // bytes of the window
	waiting  []*sending          // for a place in the window, in turn
	unsent   []byte              // small frames
	since    time.Time           // when a stream ended
	err      error
}

// receive reads answers until the connection ends.
func (l *link) receive() {
	r := &reader{from: bufio.NewReader(l.conn), allowed: toSender}
	b := make([]byte, maxAckBytes)
	for {
		h, err := r.next()
		var payload []byte
		if err == nil {
			payload, err = r.checked(h, b)
		}
		if err != nil {
			l.fail(err)
			return
		}
		l.heard.Store(time.Now().UnixNano())
		switch h.kind {
		case opened:
			l.opened(h, payload)
		case acked, damaged:
			l.settle(payload, h.kind == acked)
		case refused:
			l.refused(h, string(payload))
		}
	}
}

func (l *link) opened(h header, payload []byte) {
	chunkBytes, chunks := int(binary.BigEndian.Uint32(payload)), binary.BigEndian.Uint32(payload[4:])
	if chunkBytes < 1 || chunkBytes > MaxChunkBytes || chunkBytes+frameCost > l.window {
		l.fail(fmt.Errorf("it opened a transfer with chunks of %d bytes", chunkBytes))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.streams[h.stream]; s != nil {
		if s.chunks = l.chunks; h.index == askSealed {
			s.chunks = sealed
		}
		s.chunkBytes, s.atOnce = chunkBytes, max(1, turnBytes/(headerBytes+chunkBytes))
		if last := slices.Max(s.todo); last >= chunks {
			s.failed = fmt.Errorf("%w: chunk %d of a transfer of %d chunks", ErrRefused, last, chunks)
		}
		s.poke()
	}
}

// settle takes answers for chunks.
func (l *link) settle(entries []byte, intact bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; len(entries) >= ackBytes; entries = entries[ackBytes:] {
		s, index := l.streams[binary.BigEndian.Uint32(entries)], binary.BigEndian.Uint32(entries[4:])
		if s == nil || !s.flies(index) {
			continue
		}
		l.release(s, s.cost())
		s.settle(index, intact)
		if !intact {
			l.peer.retries.Add(1)
		}
		if s.left && len(s.flying) == 0 {
			l.remove(s)
		}
	}
	l.grant()
}

// refused ends a stream; the receiver has let go of its chunks.
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
	s.poke()
	l.grant()
}

// fail ends the connection.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("%w: %w", errLost, err)
		close(l.lost)
		l.conn.Close()
	}
}

// keep ends the connection when nobody needs it, or the receiver is silent, until ctx ends.
func (l *link) keep(ctx context.Context, idleAfter, silentAfter time.Duration) {
	tick := time.NewTicker(min(idleAfter, silentAfter) / 4)
	defer tick.Stop()
	for {
		select {
		case <-l.lost:
			return
		case <-ctx.Done():
			l.fail(context.Cause(ctx))
			return
		case <-tick.C:
		}
		if err := l.look(idleAfter, silentAfter); err != nil {
			l.fail(err)
		}
	}
}

// look returns why the connection should end. A receiver that is silent for a while is asked for a sign of life.
func (l *link) look(idleAfter, silentAfter time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	needed, silent := len(l.streams) > 0, time.Since(time.Unix(0, l.heard.Load()))
	switch {
	case !needed && time.Since(l.since) > idleAfter:
		return errors.New("idle")
	case needed && silent > silentAfter:
		return fmt.Errorf("no sign of life for %s", silentAfter)
	case needed && silent > silentAfter/4 && len(l.unsent) == 0:
		l.say(header{kind: ping}, nil)
	}
	return nil
}

// say queues a small frame. l.mu is held.
func (l *link) say(h header, payload []byte) {
	l.unsent = appendFrame(l.unsent, h, payload)
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// write sends small frames, and turns in the order in which their streams got to it. One that can not be sent whole ends the connection.
func (l *link) write() {
	var small []byte
	for {
		var t *turn
		select {
		case t = <-l.turns:
		case <-l.kick:
		case <-l.lost:
			return
		}
		l.mu.Lock()
		small, l.unsent = l.unsent, small[:0]
		l.mu.Unlock()
		select {
		case l.pen <- struct{}{}:
		case <-l.lost:
			return
		}
		_ = l.conn.SetWriteDeadline(time.Now().Add(l.peer.plane.cfg.SilentAfter))
		var err error
		if len(small) > 0 {
			_, err = l.conn.Write(small)
		}
		if err == nil && t != nil {
			_, err = l.conn.Write(t.bytes)
		}
		<-l.pen
		if err != nil {
			l.fail(err)
			return
		}
		if t != nil {
			t.written <- struct{}{}
		}
	}
}
