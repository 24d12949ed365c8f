package bulk

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/zeebo/xxh3"
)

// inPlaceGrace is how long a chunk in place may still be written after its context ended. Then the
// connection is closed, and other sends continue over the next one.
const inPlaceGrace = 100 * time.Millisecond

// inPlace reports whether chunks are sent from their memory. They must be large enough for a batch
// each, and the connection must write several buffers at once.
func (l *link) inPlace(s *sending) bool {
	_, plain := l.conn.(*net.TCPConn)
	return plain && s.view != nil && s.chunkBytes > batchBytes/2
}

// sendInPlace writes a chunk from its memory. After it returns, nothing reads that memory.
func (l *link) sendInPlace(ctx context.Context, s *sending, index uint32) error {
	return s.view(index, func(parts ...[]byte) error {
		h, head := header{kind: s.chunks, stream: s.stream, index: index}, make([]byte, headerBytes)
		if err := h.setPayload(parts, s.chunkBytes); err != nil {
			return fmt.Errorf("chunk %d: %w", index, err)
		}
		h.put(head)
		select {
		case l.writing <- struct{}{}:
			defer func() { <-l.writing }()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.lost:
			return l.err
		}
		if err := l.markSent(s, 1); err != nil {
			return err
		}
		return l.writeAll(ctx, append(net.Buffers{head}, parts...))
	})
}

// writeAll writes a frame, for at most inPlaceGrace after ctx ends.
func (l *link) writeAll(ctx context.Context, frame net.Buffers) error {
	plane := l.peer.plane
	_ = l.conn.SetWriteDeadline(plane.now().Add(plane.cfg.SilentAfter))
	stop := plane.cfg.Runtime.OnDone(ctx, func() { _ = l.conn.SetWriteDeadline(plane.now().Add(inPlaceGrace)) })
	n, err := frame.WriteTo(l.conn)
	if stop(); err != nil {
		l.fail(err)
		return l.err
	}
	l.peer.chunks.Add(1)
	l.peer.bytes.Add(uint64(n - headerBytes))
	return nil
}

// setPayload sets length and sum for a chunk in parts. The seal, if there is one, is in the last
// part.
func (h *header) setPayload(parts [][]byte, most int) error {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	if length > most {
		return fmt.Errorf("chunk has %d bytes, limit %d", length, most)
	}
	h.length = uint32(length)
	switch {
	case h.kind == sealed && (len(parts) == 0 || len(parts[len(parts)-1]) < SealBytes):
		return fmt.Errorf("chunk of %d bytes in %d parts has no seal", length, len(parts))
	case h.kind == sealed:
		h.sum = payloadSum(sealed, parts[len(parts)-1])
	case len(parts) == 1:
		h.sum = payloadSum(h.kind, parts[0])
	default:
		sum := newChunkSum(header{kind: h.kind, length: h.length}, xxh3.New())
		for _, part := range parts {
			sum.add(part)
		}
		h.sum = sum.value()
	}
	return nil
}
