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

// inPlace reports whether chunks are sent from where they lie: they are worth a turn each, and the connection writes pieces of memory as one.
func (l *link) inPlace(s *sending) bool {
	_, plain := l.conn.(*net.TCPConn)
	return plain && s.view != nil && s.chunkBytes > turnBytes/2
}

// sendInPlace writes a chunk from where it lies. When it returns, nothing reads that memory.
func (l *link) sendInPlace(ctx context.Context, s *sending, index uint32) error {
	return s.view(index, func(parts ...[]byte) error {
		h, head := header{kind: s.chunks, stream: s.stream, index: index}, make([]byte, headerBytes)
		if err := h.describe(parts, s.chunkBytes); err != nil {
			return fmt.Errorf("chunk %d: %w", index, err)
		}
		h.put(head)
		select {
		case l.pen <- struct{}{}:
			defer func() { <-l.pen }()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.lost:
			return l.err
		}
		if err := l.launch(s, 1); err != nil {
			return err
		}
		return l.writeAll(ctx, append(net.Buffers{head}, parts...))
	})
}

// writeAll writes a frame, for not much longer than somebody waits for it.
func (l *link) writeAll(ctx context.Context, frame net.Buffers) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(l.peer.plane.cfg.SilentAfter))
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetWriteDeadline(time.Now().Add(leaveMemoryWithin)) })
	n, err := frame.WriteTo(l.conn)
	if stop(); err != nil {
		l.fail(err)
		return l.err
	}
	l.peer.chunks.Add(1)
	l.peer.bytes.Add(uint64(n - headerBytes))
	return nil
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
