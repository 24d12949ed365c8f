package bulk

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"troupe/actors/supervise"
	"troupe/messages"
)

// Plane is a node's data plane. It receives the transfers that this node expects and sends others.
// It is safe for concurrent use.
type Plane struct {
	cfg      Config
	listener net.Listener
	address  string
	ctx      context.Context // ends with the plane, with cause ErrClosed
	cancel   context.CancelCauseFunc
	running  sync.WaitGroup
	received received
	buffers  buffers

	mu        sync.Mutex
	transfers map[transferID]*transfer
	inbounds  []*inbound
	peers     map[string]*peer // by address
	links     int              // open connections to peers
}

// Listen opens the data plane of a node.
func Listen(cfg Config) (*Plane, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("data plane: %w; set another address to listen on", err)
	}
	address, err := advertised(cfg.Advertise, l.Addr().String())
	if err != nil {
		l.Close()
		return nil, err
	}
	if cfg.ServerTLS != nil {
		l = tls.NewListener(l, cfg.ServerTLS)
	}
	p := &Plane{
		cfg: cfg, listener: l, address: address,
		transfers: map[transferID]*transfer{}, peers: map[string]*peer{},
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.goRun(p.accept)
	p.goRun(p.sweep)
	return p, nil
}

func (p *Plane) now() time.Time { return p.cfg.Runtime.Now() }

// goRun runs f in a goroutine that Close waits for.
func (p *Plane) goRun(f func()) { supervise.GoIn(p.cfg.Runtime, &p.running, f) }

// advertised returns the address that peers dial.
func advertised(advertise, listens string) (string, error) {
	if advertise == "" {
		return listens, nil
	}
	host, port, err := net.SplitHostPort(advertise)
	if err != nil {
		return "", fmt.Errorf("data plane: advertised address %q: %w; set host:port", advertise, err)
	}
	if port == "0" {
		_, port, _ = net.SplitHostPort(listens)
	}
	return net.JoinHostPort(host, port), nil
}

// Address returns the host:port at which other nodes reach the plane.
func (p *Plane) Address() string { return p.address }

// Close ends all transfers and connections, notifies their senders, and waits for running puts.
func (p *Plane) Close() {
	p.cancel(ErrClosed)
	p.listener.Close()
	p.mu.Lock()
	transfers := p.sortedTransfers()
	p.mu.Unlock()
	for _, t := range transfers {
		p.remove(t, refusal{refusedUnknown, "the receiving node is closing its data plane"})
	}
	p.mu.Lock()
	for _, in := range p.inbounds {
		in.drain()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Expect opens a transfer of at most the given number of chunks, with indices from 0 and at most
// chunkBytes each.
//
// put is called in the order of arrival and never concurrently for one transfer. It must not keep b
// after it returns. A chunk is acknowledged after put returned nil, and is never put again. An
// error of put ends the transfer and becomes ErrSink at the sender. put must not call Drop.
func (p *Plane) Expect(
	chunkBytes int,
	chunks uint32,
	put func(index uint32, b []byte) error,
) (*messages.BulkTicket, error) {
	return p.expect(chunkBytes, chunks, nil, put)
}

// ExpectSealed is like Expect, for chunks whose last SealBytes bytes are a seal: the big-endian
// hash of the bytes before them. A chunk with a wrong seal counts as damaged and is not put. The
// data plane then needs no checksum of its own. seal returns a new hash for each chunk, and is
// called by the reading goroutine.
func (p *Plane) ExpectSealed(
	chunkBytes int,
	chunks uint32,
	seal func(index uint32, bytes int) hash.Hash64,
	put func(index uint32, b []byte) error,
) (*messages.BulkTicket, error) {
	return p.expect(chunkBytes, chunks, seal, put)
}

func (p *Plane) expect(
	chunkBytes int,
	chunks uint32,
	seal func(uint32, int) hash.Hash64,
	put func(uint32, []byte) error,
) (*messages.BulkTicket, error) {
	if limit := min(MaxChunkBytes, p.cfg.Window-frameCost); chunkBytes < 1 || chunkBytes > limit {
		return nil, fmt.Errorf("data plane: chunks of %d bytes; set 1 to %d", chunkBytes, limit)
	}
	t := &transfer{
		chunkBytes: chunkBytes, chunks: chunks, put: put, seal: seal, plane: p,
		done: make([]uint64, (uint64(chunks)+63)/64), lastActive: p.now(),
	}
	t.idle.L = &t.mu
	p.cfg.Runtime.ReadRandom(t.id[:])
	p.cfg.Runtime.ReadRandom(t.token[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil, ErrClosed
	}
	p.transfers[t.id] = t
	return &messages.BulkTicket{
		Address: p.address, Transfer: hex.EncodeToString(t.id[:]), Token: bytes.Clone(t.token[:]),
		Bytes: uint64(chunkBytes) * uint64(chunks),
	}, nil
}

// Drop ends a transfer of Expect, finished or not. It waits for a running put; put is not called
// after Drop returned.
func (p *Plane) Drop(ticket *messages.BulkTicket) {
	if id, err := parseID(ticket); err == nil {
		if t := p.transfer(id); t != nil {
			p.remove(t, refusal{refusedUnknown, "the receiver has ended the transfer"})
		}
	}
}

func parseID(ticket *messages.BulkTicket) (id transferID, err error) {
	b, err := hex.DecodeString(ticket.GetTransfer())
	if err != nil || len(b) != idBytes || len(ticket.GetToken()) != tokenBytes {
		return id, errors.New("malformed ticket")
	}
	return transferID(b), nil
}

func (p *Plane) transfer(id transferID) *transfer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.transfers[id]
}

func (p *Plane) remove(t *transfer, why refusal) {
	t.stop(why)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.transfers, t.id)
}

// sortedTransfers returns the transfers by ID. p.mu is held.
func (p *Plane) sortedTransfers() []*transfer {
	byID := func(a, b *transfer) int { return bytes.Compare(a.id[:], b.id[:]) }
	return slices.SortedFunc(maps.Values(p.transfers), byID)
}

// dropInbound removes a lost connection and its queued chunks.
func (p *Plane) dropInbound(in *inbound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inbounds = slices.DeleteFunc(p.inbounds, func(one *inbound) bool { return one == in })
	for _, t := range p.transfers {
		t.dropFrom(in)
	}
}

// accept serves other nodes.
func (p *Plane) accept() {
	for {
		conn, err := p.listener.Accept()
		if p.ctx.Err() != nil {
			if conn != nil {
				conn.Close()
			}
			return
		}
		if err != nil { // out of descriptors; retry, since some may be freed
			p.cfg.Log.Error().Err(err).Msg("bulk connection not accepted")
			if !p.sleep(p.ctx, time.Second/10) {
				return
			}
			continue
		}
		in := &inbound{
			plane:      p,
			conn:       conn,
			wake:       make(chan struct{}, 1),
			readerDone: make(chan struct{}),
			streams:    map[uint32]*transfer{},
		}
		p.mu.Lock()
		full := len(p.inbounds) >= maxConnections || p.ctx.Err() != nil
		if !full {
			p.inbounds = append(p.inbounds, in)
			p.goRun(in.serve)
		}
		p.mu.Unlock()
		if full {
			conn.Close()
		}
	}
}

// sweep ends transfers that have expired or hang.
func (p *Plane) sweep() {
	for p.sleep(p.ctx, min(p.cfg.ExpireAfter, p.cfg.SinkTimeout)/8) {
		now := p.now()
		p.mu.Lock()
		for _, t := range p.sortedTransfers() {
			if t.check(now, p.cfg.ExpireAfter, p.cfg.SinkTimeout) {
				delete(p.transfers, t.id)
			}
		}
		p.mu.Unlock()
	}
}

// sleep waits for d and reports whether ctx has not ended.
func (p *Plane) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.cfg.Runtime.After(d):
		return true
	}
}
