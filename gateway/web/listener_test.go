package web_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/gateway/web"
)

// getFrom sends a GET request from an IP address and returns the response.
func (p *pipes) getFrom(t *testing.T, from, path string) string {
	t.Helper()
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path)
	return exchange(t, p.dialFrom(t, from), request)
}

// openIdle opens connections that send nothing, and returns once the server has handled all that it
// can.
func (p *pipes) openIdle(t *testing.T, from string, n int) (held []net.Conn) {
	t.Helper()
	for range n {
		held = append(held, p.dialFrom(t, from))
	}
	synctest.Wait()
	return held
}

// TestProbesServedDuringConnectionFlood checks that probes are served and other requests get 503
// with Retry-After, however many connections are open. The connections use only the allowed
// descriptors.
func TestProbesServedDuringConnectionFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := web.Limits{MaxConnections: 20, MaxPerAddress: 20, MaxOverflow: 4, OverflowTimeout: time.Hour}
		network, l := startServer(t, limits, testHandler)
		held := network.openIdle(t, "127.0.0.1", 300)
		if open, overflowed := l.Stats(); open != 24 || overflowed != 280 {
			t.Errorf("%d connections are open, want 20 plus 4 of 280 overflow connections, of %d", open, overflowed)
		}
		for _, path := range []string{"/live", "/health", "/ready"} {
			if got := network.getFrom(t, "127.0.0.1", path); !strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Errorf("%s: %q", path, got)
			}
		}
		if got := network.getFrom(t, "127.0.0.1", "/v1/models"); !strings.HasPrefix(got, "HTTP/1.1 503") ||
			!strings.Contains(got, "Retry-After: 1") ||
			!strings.Contains(got, "Connection: close") {
			t.Errorf("another request: %q", got)
		}
		for _, c := range held {
			_ = c.Close()
		}
		synctest.Wait()
		if open, _ := l.Stats(); open != 0 {
			t.Errorf("%d connections are open after all clients have left", open)
		}
		if got := network.getFrom(t, "127.0.0.1", "/v1/models"); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("after the flood: %q", got)
		}
	})
}

// TestOverflowConnectionTimesOut checks that an overflow connection that sends nothing is closed
// soon.
func TestOverflowConnectionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := web.Limits{MaxConnections: 1, OverflowTimeout: time.Second}
		network, _ := startServer(t, limits, testHandler)
		network.openIdle(t, "127.0.0.1", 1)
		began := time.Now()
		network.exchange(t, "")
		if took := time.Since(began); took != limits.OverflowTimeout {
			t.Errorf("closed after %s, want %s", took, limits.OverflowTimeout)
		}
	})
}

// TestConnectionsPerAddress checks that an address at its limit does not affect others, and that an
// exempt proxy has no limit.
func TestConnectionsPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxy := netip.MustParseAddr("127.0.0.3")
		exempt := func(a netip.Addr) bool { return a == proxy }
		limits := web.Limits{MaxConnections: 100, MaxPerAddress: 5, ExemptAddress: exempt}
		network, l := startServer(t, limits, testHandler)
		network.openIdle(t, "127.0.0.1", 6)
		network.openIdle(t, "127.0.0.3", 20)
		if open, _ := l.Stats(); open != 26 {
			t.Errorf("%d connections are open, want 26", open)
		}
		for local, want := range map[string]string{"127.0.0.1": "503", "127.0.0.2": "200", "127.0.0.3": "200"} {
			if got := network.getFrom(t, local, "/v1/models"); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
				t.Errorf("%s: %q, want status %s", local, got, want)
			}
		}
	})
}

// TestOverflowConnectionReadsNoBody checks that a request with a body is not served as a probe.
func TestOverflowConnectionReadsNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := web.Limits{MaxConnections: 1, BodyStallTimeout: 50 * time.Millisecond, OverflowTimeout: time.Hour}
		network, _ := startServer(t, limits, testHandler)
		network.openIdle(t, "127.0.0.1", 1)
		if got := network.exchange(t, "GET /health HTTP/1.1\r\n"+missingBody); !strings.HasPrefix(got, "HTTP/1.1 503") {
			t.Errorf("%q, want status 503", got)
		}
	})
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
