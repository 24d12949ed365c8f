package bulk

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/zeebo/xxh3"
)

// leaveMemoryWithin is how long memory that is sent in place may still be written from when nobody waits for the chunk any more. Then the
// connection goes, and other sends over it go on over the next one.
const leaveMemoryWithin = 100 * time.Millisecond

// plain reports whether the connection writes several pieces of memory as one.
func (l *link) plain() bool {
	_, plain := l.conn.(*net.TCPConn)
	return plain
}

// write writes a turn whole.
func (t *turn) write(conn net.Conn) error {
	all := net.Buffers(append([][]byte{t.bytes}, t.parts...))
	_, err := all.WriteTo(conn)
	return err
}

// sendInPlace writes a chunk from where it lies. When it returns, nothing reads that memory.
func (l *link) sendInPlace(ctx context.Context, s *sending, t *turn, index uint32) error {
	if t.buf == nil {
		t.buf, t.written = l.peer.plane.buffers.get(headerBytes), make(chan struct{}, 1)
	}
	return s.view(index, func(parts ...[]byte) error {
		h := header{kind: s.chunks, stream: s.stream, index: index}
		if err := h.describe(parts, s.chunkBytes); err != nil {
			return fmt.Errorf("chunk %d: %w", index, err)
		}
		h.put(t.buf)
		t.bytes, t.parts = t.buf[:headerBytes], parts
		if err := l.launch(s, 1); err != nil {
			return err
		}
		select {
		case l.turns <- t:
			l.peer.chunks.Add(1)
			l.peer.bytes.Add(uint64(h.length))
			return l.leave(ctx, t)
		case <-ctx.Done():
			l.recall(s, []uint32{index})
			return context.Cause(ctx)
		case <-l.lost:
			return l.err
		}
	})
}

// leave waits until the writer has no more to do with a turn's memory.
func (l *link) leave(ctx context.Context, t *turn) error {
	select {
	case <-t.written:
		return nil
	case <-ctx.Done():
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(leaveMemoryWithin))
	<-t.written
	return context.Cause(ctx)
}

// describe sets length and sum of a chunk that is in parts, the last of which holds the seal where there is one.
func (h *header) describe(parts [][]byte, most int) error {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	if length > most {
		return fmt.Errorf("%d bytes; the transfer has chunks of at most %d", length, most)
	}
	h.length = uint32(length)
	switch {
	case h.kind == sealed && (len(parts) == 0 || len(parts[len(parts)-1]) < SealBytes):
		return fmt.Errorf("%d bytes in %d parts; the transfer is of sealed chunks", length, len(parts))
	case h.kind == sealed:
		h.sum = payloadSum(sealed, parts[len(parts)-1])
	case len(parts) == 1:
		h.sum = payloadSum(h.kind, parts[0])
	default:
		sum := newSums(header{kind: h.kind, length: h.length}, xxh3.New())
		for _, part := range parts {
			sum.add(part)
		}
		h.sum = sum.value()
	}
	return nil
}
