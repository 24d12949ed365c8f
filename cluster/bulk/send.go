package bulk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"troupe/messages"
)

const (
	maxTries     = 8 // of one chunk that comes damaged
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = time.Second
)

// errLost is a connection that was lost or not to be had: another one may go on.
var errLost = errors.New("connection lost")

// Send sends the chunks with these indices to where the ticket is from, and returns when all have been acknowledged, or with
// ErrRefused, ErrSink, ErrChecksum, ErrClosed, the error of read or that of ctx. Lost connections are made again for as long
// as ctx lasts. It may be called several times for one ticket, also at once.
//
// read fills into, which is as long as a chunk of the transfer may be, and returns how many bytes it is. It is called by this
// goroutine, and again for the same index where a connection was lost or the chunk came damaged.
func (p *Plane) Send(ctx context.Context, ticket *messages.BulkTicket, indices []uint32, read func(index uint32, into []byte) (int, error)) error {
	return p.send(ctx, ticket, indices, &sending{read: read})
}

// SendInPlace is Send of chunks that lie in memory already: view has use called with a chunk's parts, one behind the other, which stay what they are
// until use returns. Large ones are not copied, but where TLS does.
func (p *Plane) SendInPlace(ctx context.Context, ticket *messages.BulkTicket, indices []uint32, view func(index uint32, use func(parts ...[]byte) error) error) error {
	return p.send(ctx, ticket, indices, &sending{view: view, read: func(index uint32, into []byte) (n int, err error) {
		err = view(index, func(parts ...[]byte) error {
			for _, part := range parts {
				n += len(part)
				copy(into[min(len(into), n-len(part)):], part)
			}
			return nil
		})
		return n, err
	}})
}

func (p *Plane) send(ctx context.Context, ticket *messages.BulkTicket, indices []uint32, s *sending) error {
	id, err := parseID(ticket)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	ctx, cancel := p.under(ctx)
	defer cancel()
	s.open, s.todo = slices.Concat(id[:], ticket.GetToken()), distinct(indices)
	s.flying, s.tries, s.wake = map[uint32]struct{}{}, map[uint32]int{}, make(chan struct{}, 1)
	if err := p.carry(ctx, p.peer(ticket.GetAddress()), s); err != nil {
		return fmt.Errorf("send transfer %s to %s: %w", ticket.GetTransfer(), ticket.GetAddress(), err)
	}
	return nil
}

// under returns a context that ends with the plane as well, and then says so.
func (p *Plane) under(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })
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

// carry sends over one connection after the other.
func (p *Plane) carry(ctx context.Context, to *peer, s *sending) error {
	var last error // that ctx did not cause
	for backoff := firstBackoff; len(s.todo) > 0; backoff = min(2*backoff, lastBackoff) {
		l, err := to.link(ctx)
		if err == nil {
			err = p.over(ctx, l, s)
		}
		if !errors.Is(err, errLost) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if s.moved {
			backoff, s.moved = firstBackoff, false
		}
		if !sleep(ctx, backoff/2+rand.N(backoff)) {
			return fmt.Errorf("%w; before: %w", context.Cause(ctx), last)
		}
		to.reconnects.Add(1)
	}
	return nil
}

// over sends what is left over one connection.
func (p *Plane) over(ctx context.Context, l *link, s *sending) error {
	if err := l.attach(s); err != nil {
		return err
	}
	err := p.stream(ctx, l, s)
	if failed := l.detach(s); failed != nil {
		return failed // the connection may have been lost just after
	}
	return err
}

// stream sends chunks until all have been acknowledged.
func (p *Plane) stream(ctx context.Context, l *link, s *sending) error {
	var turns [2]turn // one is filled while the other is written
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
			t.buf, t.written = p.buffers.get(s.atOnce*(headerBytes+s.chunkBytes)), make(chan struct{}, 1)
		}
		if err := l.send(ctx, s, t, indices); err != nil {
			return err
		}
	}
}
