package bulk

import (
	"context"
	"fmt"
)

// turn is what a Send has written at once: some frames of chunks. Its buffer is the writer's until that says written.
type turn struct {
	buf     []byte
	bytes   []byte // of buf, to be written
	busy    bool
	written chan struct{}
}

// fill reads chunks into the buffer and makes frames of them.
func (t *turn) fill(s *sending, indices []uint32) error {
	t.bytes = t.buf[:0]
	for _, index := range indices {
		frame := t.buf[len(t.bytes):][:headerBytes+s.chunkBytes]
		n, err := s.read(index, frame[headerBytes:])
		if err == nil && (n < 0 || n > s.chunkBytes) {
			err = fmt.Errorf("%d bytes; the transfer has chunks of at most %d", n, s.chunkBytes)
		}
		if err == nil && s.chunks == sealed && n < SealBytes {
			err = fmt.Errorf("%d bytes; the transfer is of sealed chunks", n)
		}
		if err != nil {
			return fmt.Errorf("read chunk %d: %w", index, err)
		}
		header{s.chunks, s.stream, index, uint32(n), payloadSum(s.chunks, frame[headerBytes:headerBytes+n])}.put(frame)
		t.bytes = t.buf[:len(t.bytes)+headerBytes+n]
	}
	return nil
}

// send fills a turn, once what it held before is written, and hands it to the writer.
func (l *link) send(ctx context.Context, s *sending, t *turn, indices []uint32) error {
	if err := l.reclaim(ctx, t); err != nil {
		return err
	}
	if err := t.fill(s, indices); err != nil {
		return err
	}
	if err := l.launch(s, len(indices)); err != nil {
		return err
	}
	select {
	case l.turns <- t:
		t.busy = true
		l.peer.chunks.Add(uint64(len(indices)))
		l.peer.bytes.Add(uint64(len(t.bytes) - len(indices)*headerBytes))
		return nil
	case <-ctx.Done():
		l.recall(s, indices)
		return context.Cause(ctx)
	case <-l.lost:
		return l.err
	}
}

// reclaim waits until a turn has been written.
func (l *link) reclaim(ctx context.Context, t *turn) error {
	if !t.busy {
		return nil
	}
	select {
	case <-t.written:
		t.busy = false
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.lost:
		return l.err
	}
}

// recycle keeps the buffers of turns, but for those that a writer may still have.
func (p *Plane) recycle(turns []turn) {
	for _, t := range turns {
		if t.busy {
			select {
			case <-t.written:
			default:
				continue
			}
		}
		if t.buf != nil {
			p.buffers.put(t.buf)
		}
	}
}
