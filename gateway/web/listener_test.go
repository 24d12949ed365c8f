package web_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"troupe/gateway/web"
)

// getFrom sends a GET request from a local address and returns the response.
func getFrom(t *testing.T, local, addr, path string) string {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}).Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path)
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%s from %s: %q, %v", path, local, all, err)
	}
	return string(all)
}

// openIdle opens connections that send nothing.
func openIdle(t *testing.T, local, addr string, n int) (held []net.Conn) {
	t.Helper()
	for range n {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}).Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		held = append(held, c)
	}
	return held
}

// waitFor polls until a condition holds.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// TestProbesServedDuringConnectionFlood checks that probes are served and other requests get 503
// with Retry-After, however many connections are open. The connections use only the allowed
// descriptors.
func TestProbesServedDuringConnectionFlood(t *testing.T) {
	limits := web.Limits{MaxConnections: 20, MaxPerAddress: 20, MaxOverflow: 4, OverflowTimeout: time.Hour}
	addr, l := startServer(t, limits, testHandler)
	held := openIdle(t, "127.0.0.1", addr, 300)
	waitFor(t, "all connections are accepted", func() bool { _, refused := l.Stats(); return refused == 280 })
	if open, _ := l.Stats(); open != 24 {
		t.Errorf("%d connections are open, want 20 plus 4 overflow connections", open)
	}
	for _, path := range []string{"/live", "/health", "/ready"} {
		if got := getFrom(t, "127.0.0.1", addr, path); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := getFrom(t, "127.0.0.1", addr, "/v1/models"); !strings.HasPrefix(got, "HTTP/1.1 503") ||
		!strings.Contains(got, "Retry-After: 1") ||
		!strings.Contains(got, "Connection: close") {
		t.Errorf("another request: %q", got)
	}
	for _, c := range held {
		_ = c.Close()
	}
	waitFor(t, "all connections are closed", func() bool { open, _ := l.Stats(); return open == 0 })
	if got := getFrom(t, "127.0.0.1", addr, "/v1/models"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("after the flood: %q", got)
	}
}

// TestOverflowConnectionTimesOut checks that an overflow connection that sends nothing is closed
// soon.
func TestOverflowConnectionTimesOut(t *testing.T) {
	addr, l := startServer(t, web.Limits{MaxConnections: 1, OverflowTimeout: 50 * time.Millisecond}, testHandler)
	openIdle(t, "127.0.0.1", addr, 1)
	waitFor(t, "the first connection is accepted", func() bool { open, _ := l.Stats(); return open == 1 })
	exchange(t, addr, "")
}

// TestConnectionsPerAddress checks that an address at its limit does not affect others, and that an
// exempt proxy has no limit.
func TestConnectionsPerAddress(t *testing.T) {
	proxy := netip.MustParseAddr("127.0.0.3")
	addr, l := startServer(t,
		web.Limits{MaxConnections: 100, MaxPerAddress: 5, ExemptAddress: func(a netip.Addr) bool { return a == proxy }},
		testHandler)
	openIdle(t, "127.0.0.1", addr, 6)
	openIdle(t, "127.0.0.3", addr, 20)
	waitFor(t, "all connections are accepted", func() bool { open, _ := l.Stats(); return open == 26 })
	for local, want := range map[string]string{"127.0.0.1": "503", "127.0.0.2": "200", "127.0.0.3": "200"} {
		if got := getFrom(t, local, addr, "/v1/models"); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("%s: %q, want status %s", local, got, want)
		}
	}
}

// TestOverflowConnectionReadsNoBody checks that a request with a body is not served as a probe.
func TestOverflowConnectionReadsNoBody(t *testing.T) {
	addr, l := startServer(t,
		web.Limits{MaxConnections: 1, BodyStallTimeout: 50 * time.Millisecond, OverflowTimeout: time.Hour}, testHandler)
	openIdle(t, "127.0.0.1", addr, 1)
	waitFor(t, "the first connection is accepted", func() bool { open, _ := l.Stats(); return open == 1 })
	if got := exchange(t, addr, "GET /health HTTP/1.1\r\n"+missingBody); !strings.HasPrefix(got, "HTTP/1.1 503") {
		t.Errorf("%q, want status 503", got)
	}
}

// TestLimitDefaults checks that at least half of the descriptors stay free.
func TestLimitDefaults(t *testing.T) {
	l := web.Limits{}.WithDefaults()
	if n := web.MaxDescriptors(); l.MaxConnections > max(16, n/2) || l.MaxConnections < 16 ||
		l.MaxPerAddress > l.MaxConnections ||
		n < 16 {
		t.Errorf("%+v of %d descriptors", l, n)
	}
}
