package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"troupe/messages"
)

const (
	maxTries     = 8 // of one chunk that arrives damaged
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = time.Second
)

// errLost means that a connection was lost or could not be made. Another one may succeed.
var errLost = errors.New("connection lost")

// Send sends the chunks with these indices to the receiver named in the ticket. It returns nil when
// all have been acknowledged. Otherwise it returns ErrRefused, ErrSink, ErrChecksum, ErrClosed, the
// error of read or that of ctx. It reconnects until ctx ends. It may be called several times for
// one ticket, also concurrently.
//
// read fills into, which is as long as the transfer's largest chunk, and returns the chunk's
// length. It runs in the caller's goroutine, and again for the same index if a connection was lost
// or the chunk arrived damaged.
func (p *Plane) Send(
	ctx context.Context,
	ticket *messages.BulkTicket,
	indices []uint32,
	read func(index uint32, into []byte) (int, error),
) error {
	return p.send(ctx, ticket, indices, &sending{read: read})
}

// SendInPlace is like Send for chunks that are in memory. view calls use with the consecutive parts
// of a chunk, which must not change until use returns. Large chunks are not copied, except by TLS.
func (p *Plane) SendInPlace(
	ctx context.Context,
	ticket *messages.BulkTicket,
	indices []uint32,
	view func(index uint32, use func(parts ...[]byte) error) error,
) error {
	return p.send(
		ctx,
		ticket,
		indices,
		&sending{view: view, read: func(index uint32, into []byte) (n int, err error) {
			err = view(index, func(parts ...[]byte) error {
				for _, part := range parts {
					n += len(part)
					copy(into[min(len(into), n-len(part)):], part)
				}
				return nil
			})
			return n, err
		}},
	)
}

func (p *Plane) send(ctx context.Context, ticket *messages.BulkTicket, indices []uint32, s *sending) error {
	id, err := parseID(ticket)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	ctx, cancel := p.withPlane(ctx)
	defer cancel()
	s.open, s.todo = slices.Concat(id[:], ticket.GetToken()), distinct(indices)
	s.unacked, s.tries, s.changed = map[uint32]struct{}{}, map[uint32]int{}, make(chan struct{}, 1)
	if err := p.sendWithRetries(ctx, p.peer(ticket.GetAddress()), s); err != nil {
		return fmt.Errorf("send transfer %s to %s: %w", ticket.GetTransfer(), ticket.GetAddress(), err)
	}
	return nil
}

// withPlane returns a context that also ends with the plane, with cause ErrClosed.
func (p *Plane) withPlane(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := p.cfg.Runtime.OnDone(p.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func distinct(indices []uint32) []uint32 {
	seen := make(map[uint32]struct{}, len(indices))
	return slices.DeleteFunc(slices.Clone(indices), func(i uint32) bool {
		_, again := seen[i]
		seen[i] = struct{}{}
		return again
	})
}

// sendWithRetries sends over one connection after another.
func (p *Plane) sendWithRetries(ctx context.Context, to *peer, s *sending) error {
	var last error // last error that was not caused by ctx
	for backoff := firstBackoff; len(s.todo) > 0; backoff = min(2*backoff, lastBackoff) {
		l, err := to.link(ctx)
		if err == nil {
			err = p.sendOver(ctx, l, s)
		}
		if !errors.Is(err, errLost) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if s.progressed {
			backoff, s.progressed = firstBackoff, false
		}
		if !p.sleep(ctx, backoff/2+p.randomBelow(backoff)) {
			return fmt.Errorf("%w; before: %w", context.Cause(ctx), last)
		}
		to.reconnects.Add(1)
	}
	return nil
}

func (p *Plane) randomBelow(d time.Duration) time.Duration {
	return time.Duration(p.cfg.Runtime.Uint64() % uint64(d))
}

// sendOver sends the remaining chunks over one connection.
func (p *Plane) sendOver(ctx context.Context, l *link, s *sending) error {
	if err := l.attach(s); err != nil {
		return err
	}
	err := p.sendChunks(ctx, l, s)
	if failed := l.detach(s); failed != nil {
		return failed // the connection may have been lost meanwhile
	}
	return err
}

// sendChunks sends chunks until all have been acknowledged.
func (p *Plane) sendChunks(ctx context.Context, l *link, s *sending) error {
	var turns [2]batch // one is filled while the other is written
	defer func() { p.recycle(turns[:]) }()
	for i := 0; ; i++ {
		indices, err := l.next(ctx, s)
		if err != nil || len(indices) == 0 {
			return err
		}
		if l.inPlace(s) {
			if err := l.sendInPlace(ctx, s, indices[0]); err != nil {
				return err
			}
			continue
		}
		t := &turns[i%2]
		if t.buf == nil {
			t.buf, t.written = p.buffers.get(s.batchChunks*(headerBytes+s.chunkBytes)), make(chan struct{}, 1)
		}
		if err := l.send(ctx, s, t, indices); err != nil {
			return err
		}
	}
}
