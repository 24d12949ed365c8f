package dst

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"time"

	"troupe/messages"
)

const (
	chunkTime = time.Millisecond      // of one chunk over the network
	retryTime = 50 * time.Millisecond // between two attempts to reach a node
)

// plane is the data plane of a node. Like cluster/bulk it stores each chunk once, and while the
// other node cannot be reached, it retries until the context ends.
type plane struct {
	node *Node

	mu        sync.Mutex
	lastID    uint64
	transfers map[string]*transfer
}

type transfer struct {
	token  string
	size   int
	chunks uint32
	put    func(uint32, []byte) error
	seal   func(index uint32, bytes int) hash.Hash64 // nil: chunks are not sealed

	mu     sync.Mutex // held during put
	ended  bool
	stored map[uint32]bool
}

func newPlane(n *Node) *plane { return &plane{node: n, transfers: make(map[string]*transfer)} }

// Expect implements replica.Bulk.
func (p *plane) Expect(size int, chunks uint32, put func(uint32, []byte) error) (*messages.BulkTicket, error) {
	return p.ExpectSealed(size, chunks, nil, put)
}

// ExpectSealed implements replica.Bulk.
func (p *plane) ExpectSealed(size int, chunks uint32, seal func(uint32, int) hash.Hash64,
	put func(uint32, []byte) error,
) (*messages.BulkTicket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastID++
	id := fmt.Sprintf("%s-%d", p.node.address, p.lastID)
	p.transfers[id] = &transfer{token: "token of " + id, size: size, chunks: chunks, put: put, seal: seal,
		stored: make(map[uint32]bool)}
	return &messages.BulkTicket{Address: p.node.address, Transfer: id, Token: []byte("token of " + id),
		Bytes: uint64(size) * uint64(chunks)}, nil
}

// Drop implements replica.Bulk.
func (p *plane) Drop(ticket *messages.BulkTicket) {
	p.mu.Lock()
	t := p.transfers[ticket.GetTransfer()]
	delete(p.transfers, ticket.GetTransfer())
	p.mu.Unlock()
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended = true
	}
}

var errRefused = errors.New("the receiver has ended the transfer")

// store stores a chunk that has arrived, unless it is stored already.
func (t *transfer) store(index uint32, chunk []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended || index >= t.chunks:
		return errRefused
	case t.stored[index]:
		return nil
	}
	if t.seal != nil {
		end := len(chunk) - 8
		sum := t.seal(index, end)
		if _, _ = sum.Write(chunk[:end]); sum.Sum64() != binary.BigEndian.Uint64(chunk[end:]) {
			return errors.New("the seal is wrong")
		}
	}
	if err := t.put(index, chunk); err != nil {
		return err
	}
	t.stored[index] = true
	return nil
}

// Send implements replica.Bulk.
func (p *plane) Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
	read func(uint32, []byte) (int, error),
) error {
	for _, i := range indices {
		for sent := false; !sent; {
			target := p.node.network.plane(p.node.address, to.GetAddress())
			wait := chunkTime
			if target == nil {
				wait = retryTime
			}
			select {
			case <-p.node.runtime.After(wait):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if target = p.node.network.plane(p.node.address, to.GetAddress()); target == nil {
				continue
			}
			target.mu.Lock()
			t := target.transfers[to.GetTransfer()]
			target.mu.Unlock()
			if t == nil || t.token != string(to.GetToken()) {
				return errRefused
			}
			chunk := make([]byte, t.size)
			n, err := read(i, chunk)
			if err != nil {
				return err
			}
			if err := t.store(i, chunk[:n]); err != nil {
				return err
			}
			sent = true
		}
	}
	return nil
}

// SendInPlace implements kvblock.DataPlane.
func (p *plane) SendInPlace(ctx context.Context, to *messages.BulkTicket, indices []uint32,
	view func(uint32, func(...[]byte) error) error,
) error {
	return p.Send(ctx, to, indices, func(i uint32, into []byte) (n int, err error) {
		err = view(i, func(parts ...[]byte) error {
			n = copy(into, slices.Concat(parts...))
			return nil
		})
		return n, err
	})
}

// open returns the number of open transfers.
func (p *plane) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.transfers)
}
