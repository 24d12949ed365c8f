package bulk

import (
	"context"
	"fmt"
)

// batch is a group of chunk frames that one Send writes together. The writer owns its buffer until
// it signals written.
type batch struct {
	buf     []byte
	bytes   []byte // the part of buf to write
	busy    bool
	written chan struct{}
}

// fill reads chunks into the buffer and frames them.
func (t *batch) fill(s *sending, indices []uint32) error {
	t.bytes = t.buf[:0]
	for _, index := range indices {
		frame := t.buf[len(t.bytes):][:headerBytes+s.chunkBytes]
		n, err := s.read(index, frame[headerBytes:])
		if err == nil && (n < 0 || n > s.chunkBytes) {
			err = fmt.Errorf("chunk has %d bytes, limit %d", n, s.chunkBytes)
		}
		if err == nil && s.chunks == sealed && n < SealBytes {
			err = fmt.Errorf("chunk of %d bytes has no seal", n)
		}
		if err != nil {
			return fmt.Errorf("read chunk %d: %w", index, err)
		}
		header{s.chunks, s.stream, index, uint32(n), payloadSum(s.chunks, frame[headerBytes:headerBytes+n])}.put(frame)
		t.bytes = t.buf[:len(t.bytes)+headerBytes+n]
	}
	return nil
}

// send fills a batch, once its previous content is written, and hands it to the writer.
func (l *link) send(ctx context.Context, s *sending, t *batch, indices []uint32) error {
	if err := l.awaitWritten(ctx, t); err != nil {
		return err
	}
	if err := t.fill(s, indices); err != nil {
		return err
	}
	if err := l.markSent(s, len(indices)); err != nil {
		return err
	}
	select {
	case l.batches <- t:
		t.busy = true
		l.peer.chunks.Add(uint64(len(indices)))
		l.peer.bytes.Add(uint64(len(t.bytes) - len(indices)*headerBytes))
		return nil
	case <-ctx.Done():
		l.markUnsent(s, indices)
		return context.Cause(ctx)
	case <-l.lost:
		return l.err
	}
}

// awaitWritten waits until a batch has been written.
func (l *link) awaitWritten(ctx context.Context, t *batch) error {
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

// recycle returns the buffers of batches to the pool, except those that a writer may still use.
func (p *Plane) recycle(turns []batch) {
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
