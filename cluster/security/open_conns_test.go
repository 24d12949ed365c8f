package security

import (
	"net"
	"testing"
)

// TestTrackedForgets: connections that were closed are forgotten without Watch too, and those that
// are open are not.
func TestTrackedForgets(t *testing.T) {
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
	var all tracked
	open := connect()
	defer open.Close()
	all.add(open, nil)
	for range 4 * fewConnections {
		conn := connect()
		all.add(conn, nil)
		conn.Close()
	}
	if n := len(all.open); n > 2*fewConnections {
		t.Errorf("%d connections are tracked, and one is open", n)
	}
	all.prune()
	if _, ok := all.open[open]; len(all.open) != 1 || !ok {
		t.Errorf("%d connections are tracked, the open one among them: %t", len(all.open), ok)
	}
}
