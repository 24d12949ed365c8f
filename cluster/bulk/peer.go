package bulk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
)

// peer is a node that this node sends to.
type peer struct {
	plane   *Plane
	address string
	dialing chan struct{} // held while looking for or dialling a link
	current *link

	bytes, chunks, retries, reconnects atomic.Uint64
}

func (p *Plane) peer(address string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.peers[address]
	if known == nil {
		known = &peer{plane: p, address: address, dialing: make(chan struct{}, 1)}
		p.peers[address] = known
	}
	return known
}

// link returns the connection to the peer and dials if there is none.
func (p *peer) link(ctx context.Context) (*link, error) {
	select {
	case p.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.dialing }()
	if p.current != nil {
		select {
		case <-p.current.lost:
		default:
			return p.current, nil
		}
	}
	l, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	p.current = l
	return l, p.plane.run(l)
}

func (p *peer) dial(ctx context.Context) (*link, error) {
	ctx, cancel := p.plane.cfg.Runtime.WithTimeout(ctx, p.plane.cfg.handshakeTimeout())
	defer cancel()
	dialer := net.Dialer{}
	raw, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	stop := p.plane.cfg.Runtime.OnDone(ctx, func() { raw.Close() })
	conn, window, takes, err := p.handshake(ctx, raw)
	if err == nil && !stop() {
		err = fmt.Errorf("%w: %w", errLost, context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &link{
		peer: p, conn: conn, window: window, chunks: data, batches: make(chan *batch), writing: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), lost: make(chan struct{}),
		streams: map[uint32]*sending{}, idleSince: p.plane.now(),
	}
	if takes&featureHashed != 0 {
		l.chunks = hashed
	}
	l.lastHeard.Store(p.plane.now().UnixNano())
	return l, nil
}

// handshake negotiates TLS, if configured, and the protocol. It returns the connection to use, also
// on failure, so that the caller can close it.
func (p *peer) handshake(ctx context.Context, conn net.Conn) (_ net.Conn, window int, takes uint16, err error) {
	if p.plane.cfg.ClientTLS != nil {
		cfg := p.plane.cfg.ClientTLS(conn)
		if cfg.ServerName == "" {
			cfg = cfg.Clone()
			cfg.ServerName, _, _ = net.SplitHostPort(p.address)
		}
		secure := tls.Client(conn, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			return conn, 0, 0, fmt.Errorf("%w: TLS: %w", errLost, err)
		}
		conn = secure
	}
	if _, err := conn.Write(hello(0, 0)); err != nil {
		return conn, 0, 0, fmt.Errorf("%w: hello: %w", errLost, err)
	}
	var b [helloBytes]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return conn, 0, 0, fmt.Errorf("%w: hello: %w", errLost, err)
	}
	window, takes, err = parseHello(b[:])
	if err != nil && !errors.Is(err, ErrRefused) {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return conn, window, takes, err
}

// run starts the goroutines of a link.
func (p *Plane) run(l *link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		l.fail(ErrClosed)
		return ErrClosed
	}
	p.links++
	p.goRun(func() {
		l.receive()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.links--
	})
	p.goRun(l.write)
	p.goRun(func() { l.monitor(p.ctx, p.cfg.IdleAfter, p.cfg.SilentAfter) })
	return nil
}
