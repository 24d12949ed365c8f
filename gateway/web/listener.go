package web

import (
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"troupe/actors/supervise"
)

// Listener counts connections and marks those beyond the limits as overflow connections.
type Listener struct {
	net.Listener
	limits Limits

	mu         sync.Mutex
	open       int
	perAddress map[netip.Prefix]int
	overflow   []*conn // oldest first
	overflowed uint64
}

// Listen wraps a listener to limit its connections.
func Listen(inner net.Listener, limits Limits) *Listener {
	return &Listener{Listener: inner, limits: limits.WithDefaults(), perAddress: make(map[netip.Prefix]int)}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.admit(inner), nil
}

// Stats returns the number of open connections, including overflow connections, and the number of
// all overflow connections so far.
func (l *Listener) Stats() (open int, overflowed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open + len(l.overflow), l.overflowed
}

// admit counts a connection. It becomes an overflow connection if a limit is reached.
func (l *Listener) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, listener: l}
	addr := peerAddress(inner)
	c.network = addressBlock(addr)
	exempt := l.limits.ExemptAddress != nil && l.limits.ExemptAddress(addr)
	l.mu.Lock()
	var oldest *conn
	c.overflow = l.open >= l.limits.MaxConnections ||
		!exempt && l.perAddress[c.network] >= l.limits.MaxPerAddress
	if !c.overflow {
		l.open++
		l.perAddress[c.network]++
	} else {
		if l.overflowed++; len(l.overflow) >= l.limits.MaxOverflow {
			oldest = l.overflow[0]
			l.overflow = l.overflow[1:]
		}
		l.overflow = append(l.overflow, c)
		// Close fails if it is closed already.
		c.timeout = l.limits.Runtime.AfterFunc(l.limits.OverflowTimeout, func() { _ = c.Close() })
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // it would have been closed soon
	}
	return c
}

// conn is a counted connection.
type conn struct {
	net.Conn
	listener *Listener
	network  netip.Prefix
	overflow bool
	timeout  supervise.Timer // of an overflow connection
	once     sync.Once
	closing  atomic.Bool // closes after the current response
}

// Close closes the connection and stops counting it.
func (c *conn) Close() error {
	c.once.Do(func() {
		l := c.listener
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.overflow {
			c.timeout.Stop()
			if i := slices.Index(l.overflow, c); i >= 0 {
				l.overflow = slices.Delete(l.overflow, i, i+1)
			}
			return
		}
		l.open--
		if l.perAddress[c.network]--; l.perAddress[c.network] == 0 {
			delete(l.perAddress, c.network)
		}
	})
	return c.Conn.Close()
}

// CloseWrite lets net/http finish a response before it closes the connection.
func (c *conn) CloseWrite() error {
	if inner, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return net.ErrClosed
}

// listenerConn returns the connection of the Listener below TLS, or nil.
func listenerConn(c net.Conn) *conn {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	known, _ := c.(*conn)
	return known
}

// peerAddress returns the address of the peer, or the zero address if it is unknown.
func peerAddress(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// addressBlock returns the prefix that counts as one address.
func addressBlock(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // the zero address yields the zero prefix
	return prefix
}
