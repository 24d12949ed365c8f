package web_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"troupe/gateway/web"
)

// pipes is a network in memory, for tests in a bubble of synctest: time passes at once when the
// server and its clients all wait.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

// pipe is the server's end of a connection.
type pipe struct {
	net.Conn
	from net.Addr
}

// RemoteAddr implements net.Conn.
func (p pipe) RemoteAddr() net.Addr { return p.from }

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It must be called once.
func (p *pipes) Close() error { close(p.closed); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// dialFrom opens a connection from an IP address that the test closes. It fails reads and writes
// after testTimeout.
func (p *pipes) dialFrom(t *testing.T, from string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.accepted <- pipe{server, &net.TCPAddr{IP: net.ParseIP(from), Port: 1}}
	t.Cleanup(func() { _ = client.Close() })
	_ = client.SetDeadline(time.Now().Add(testTimeout))
	return client
}

func (p *pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	return p.dialFrom(t, "127.0.0.1")
}

// exchange sends text and returns everything that the server sends until it closes the connection.
func (p *pipes) exchange(t *testing.T, text string) string {
	t.Helper()
	return exchange(t, p.dial(t), text)
}

func exchange(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	go func() { _, _ = io.WriteString(c, text) }() // fails if the server has closed the connection
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: the server keeps the connection open: %v", all, err)
	}
	return string(all)
}

// startServer starts a server and returns its network and listener.
func startServer(t *testing.T, limits web.Limits, handler http.Handler) (*pipes, *web.Listener) {
	t.Helper()
	network := newPipes()
	l := web.Listen(network, limits)
	serveListener(t, l, limits, handler)
	return network, l
}

func serveListener(t *testing.T, l net.Listener, limits web.Limits, handler http.Handler) {
	busy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s := web.NewServer(limits, handler, busy, log.New(io.Discard, "", 0))
	go func() { _ = s.Serve(l) }() // returns after Close
	t.Cleanup(func() { _ = s.Close() })
}
