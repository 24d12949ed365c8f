package replica_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"troupe/messages"
)

// bulk is an in-memory data plane. The token of a ticket identifies the transfer.
type bulk struct {
	chunkTime time.Duration
	mu        sync.Mutex
	open      map[string]*transfer
	opened    int
	sent      int
	fail      func(n int) error // called for each chunk, which are numbered over all transfers; may block
	damage    func(n int, chunk []byte)
}

type transfer struct {
	size   int
	chunks uint32
	put    func(uint32, []byte) error
}

func (b *bulk) Expect(size int, chunks uint32, put func(uint32, []byte) error) (*messages.BulkTicket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	name := fmt.Sprint("t", b.opened)
	b.open[name] = &transfer{size, chunks, put}
	return &messages.BulkTicket{Transfer: name, Token: []byte(name), Bytes: uint64(size) * uint64(chunks)}, nil
}

func (b *bulk) ExpectSealed(size int, chunks uint32, seal func(uint32, int) hash.Hash64,
	put func(uint32, []byte) error) (*messages.BulkTicket, error) {
	return b.Expect(size, chunks, func(index uint32, sealed []byte) error {
		end := len(sealed) - 8
		sum := seal(index, end)
		if _, _ = sum.Write(sealed[:end]); sum.Sum64() != binary.BigEndian.Uint64(sealed[end:]) {
			return errors.New("the seal is wrong")
		}
		return put(index, sealed)
	})
}

func (b *bulk) Drop(t *messages.BulkTicket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, t.GetTransfer())
}

func (b *bulk) Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
	read func(uint32, []byte) (int, error)) error {
	for _, i := range indices {
		b.mu.Lock()
		t, fail := b.open[string(to.GetToken())], b.fail
		b.sent++
		n := b.sent
		b.mu.Unlock()
		if t == nil || i >= t.chunks {
			return errors.New("no such transfer")
		}
		select {
		case <-time.After(b.chunkTime):
		case <-ctx.Done():
			return ctx.Err()
		}
		if fail != nil {
			if err := fail(n); err != nil {
				if errors.Is(err, errStall) {
					<-ctx.Done()
				}
				return err
			}
		}
		chunk := make([]byte, t.size)
		if _, err := read(i, chunk); err != nil {
			return err
		}
		if b.damage != nil {
			b.damage(n, chunk)
		}
		if err := t.put(i, chunk); err != nil {
			return err
		}
	}
	return nil
}

var errStall = errors.New("stalled")
