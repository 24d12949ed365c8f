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

// cancelGrace is what is left to a frame that is half written when its Send is cancelled, before its connection is given up.
const cancelGrace = time.Second

// link is a connection to a receiver, shared by all that is sent there.
type link struct {
	peer   *peer
	conn   net.Conn
	window int           // bytes, the receiver's
	turn   chan struct{} // held by who writes; those who wait come in turn
	lost   chan struct{} // closed with the connection
	heard  atomic.Int64  // when the last frame came, Unix ns

	mu       sync.Mutex
	streams  map[uint32]*sending // attached, or left with chunks in flight
	last     uint32              // stream
	inflight int                 // bytes of the window
	waiting  []*sending          // for a place in the window, in turn
	unsent   []byte              // frames that go with the next one
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
			l.opened(h.stream, payload)
		case acked, damaged:
			l.settle(payload, h.kind == acked)
		case refused:
			l.refused(h, string(payload))
		}
	}
}

func (l *link) opened(stream uint32, payload []byte) {
	chunkBytes, chunks := int(binary.BigEndian.Uint32(payload)), binary.BigEndian.Uint32(payload[4:])
	if chunkBytes < 1 || chunkBytes > MaxChunkBytes || chunkBytes+frameCost > l.window {
		l.fail(fmt.Errorf("it opened a transfer with chunks of %d bytes", chunkBytes))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.streams[stream]; s != nil {
		s.chunkBytes = chunkBytes
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
		l.mu.Lock()
		needed, idle := len(l.streams) > 0, time.Since(l.since)
		l.mu.Unlock()
		silent := time.Since(time.Unix(0, l.heard.Load()))
		switch {
		case !needed && idle > idleAfter:
			l.fail(errors.New("idle"))
		case needed && silent > silentAfter:
			l.fail(fmt.Errorf("no sign of life for %s", silentAfter))
		case needed && silent > silentAfter/4:
			l.ping(ctx)
		}
	}
}

// ping asks for a sign of life, unless a frame is on its way anyhow.
func (l *link) ping(ctx context.Context) {
	select {
	case l.turn <- struct{}{}:
		_ = l.write(ctx, appendFrame(nil, header{kind: ping}, nil))
		<-l.turn
	default:
	}
}

// await waits for the turn to write; who has it must take from l.turn after.
func (l *link) await(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.lost:
		return l.err
	}
}

// flush writes what was left to go with the next frame.
func (l *link) flush(ctx context.Context) error {
	if err := l.await(ctx); err != nil {
		return err
	}
	defer func() { <-l.turn }()
	return l.write(ctx, nil)
}

// write writes a frame, and those that were left to go with it. The caller has the turn. A frame that is not written whole ends the
// connection.
func (l *link) write(ctx context.Context, frame []byte) error {
	l.mu.Lock()
	unsent := l.unsent
	l.unsent = nil
	l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(l.peer.plane.cfg.SilentAfter))
	shortened := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = l.conn.SetWriteDeadline(time.Now().Add(cancelGrace))
		close(shortened)
	})
	var err error
	if len(unsent) > 0 {
		_, err = l.conn.Write(unsent)
	}
	if err == nil && len(frame) > 0 {
		_, err = l.conn.Write(frame)
	}
	if !stop() {
		<-shortened // so that it does not meet the next frame
	}
	if err != nil {
		l.fail(err)
		return l.err
	}
	return nil
}
