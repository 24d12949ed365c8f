package security

import (
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"syscall"
)

// openConns tracks open connections with the certificate chain of each peer.
type openConns struct {
	mu   sync.Mutex
	open map[net.Conn][]*x509.Certificate
	// pruneAt is the number of connections at which closed ones are removed. Otherwise only Watch
	// removes them.
	pruneAt int
}

const fewConnections = 64

func (t *openConns) add(conn net.Conn, chain []*x509.Certificate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open, t.pruneAt = map[net.Conn][]*x509.Certificate{}, fewConnections
	}
	t.open[conn] = chain
	if len(t.open) > t.pruneAt {
		t.pruneLocked()
		t.pruneAt = max(fewConnections, 2*len(t.open))
	}
}

func (t *openConns) remove(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, conn)
}

// prune removes connections that were closed elsewhere.
func (t *openConns) prune() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneLocked()
}

func (t *openConns) pruneLocked() {
	for conn := range t.open {
		if closed(conn) {
			delete(t.open, conn)
		}
	}
}

// closeIf closes the connections whose chain meets a condition and returns their number.
func (t *openConns) closeIf(condition func([]*x509.Certificate) bool) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneLocked()
	for conn, chain := range t.open {
		if condition(chain) {
			_ = conn.Close() // fails only if another goroutine has closed it
			delete(t.open, conn)
			n++
		}
	}
	return n
}

// closed reports whether this side has closed a connection. A connection that is not a socket
// counts as open.
func closed(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err == nil {
		err = raw.Control(func(uintptr) {})
	}
	return errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EINVAL)
}
