package security

import (
	"net"
	"testing"
)

// TestOpenConnsPrunes: closed connections are removed even without Watch, and open ones are kept.
func TestOpenConnsPrunes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connect := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		return conn
	}
	var all openConns
	open := connect()
	defer open.Close()
	all.add(open, nil)
	for range 4 * fewConnections {
		conn := connect()
		all.add(conn, nil)
		conn.Close()
	}
	if n := len(all.open); n > 2*fewConnections {
		t.Errorf("%d connections are tracked, but one is open", n)
	}
	all.prune()
	if _, ok := all.open[open]; len(all.open) != 1 || !ok {
		t.Errorf("%d connections are tracked, open one tracked: %t", len(all.open), ok)
	}
}
