package web

import (
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Listener counts connections and marks those beyond the limits as spare.
type Listener struct {
	net.Listener
	limits Limits

	mu      sync.Mutex
	open    int
	by      map[netip.Prefix]int
	spare   []*conn // the oldest first
	refused uint64
}

// Listen limits the connections of a listener.
func Listen(inner net.Listener, limits Limits) *Listener {
	return &Listener{Listener: inner, limits: limits.WithDefaults(), by: make(map[netip.Prefix]int)}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.admit(inner), nil
}

// Stats returns how many connections are open, the spare ones included, and how many were beyond
// the limits so far.
func (l *Listener) Stats() (open int, refused uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open + len(l.spare), l.refused
}

// admit counts a connection, as a spare one where a limit is reached.
func (l *Listener) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, of: l}
	addr := peer(inner)
	c.network = network(addr)
	exempt := l.limits.Exempt != nil && l.limits.Exempt(addr)
	l.mu.Lock()
	var oldest *conn
	if c.spare = l.open >= l.limits.Connections || !exempt && l.by[c.network] >= l.limits.PerAddress; !c.spare {
		l.open++
		l.by[c.network]++
	} else {
		if l.refused++; len(l.spare) >= l.limits.Spare {
			oldest = l.spare[0]
			l.spare = l.spare[1:]
		}
		l.spare = append(l.spare, c)
		c.end = time.AfterFunc(l.limits.SpareTime, func() { _ = c.Close() }) // closed already, or now
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // it was to be closed in a moment
	}
	return c
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	of      *Listener
	network netip.Prefix
	spare   bool
	end     *time.Timer // of a spare one
	once    sync.Once
	closing atomic.Bool // to be closed after the answer
}

// Close closes the connection and stops counting it.
func (c *conn) Close() error {
	c.once.Do(func() {
		l := c.of
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.spare {
			c.end.Stop()
			if i := slices.Index(l.spare, c); i >= 0 {
				l.spare = slices.Delete(l.spare, i, i+1)
			}
			return
		}
		l.open--
		if l.by[c.network]--; l.by[c.network] == 0 {
			delete(l.by, c.network)
		}
	})
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer before it closes the connection.
func (c *conn) CloseWrite() error {
	if inner, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return net.ErrClosed
}

// counted returns the connection that the listener made, below TLS.
func counted(c net.Conn) *conn {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	known, _ := c.(*conn)
	return known
}

// peer is the address of the other side; the zero one where it has none.
func peer(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// network is what counts as one address.
func network(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // the zero one of the zero address
	return prefix
}
