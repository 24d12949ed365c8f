package natsd_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/natsd"
)

// TestStalledClient checks that a client that answers no ping is disconnected, so that it receives
// no more messages of its queue groups.
func TestStalledClient(t *testing.T) {
	s, err := natsd.Start(
		t.Context(),
		natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "test", Log: zerolog.Nop()},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("CONNECT {}\r\nSUB a q 1\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil { // nats-server's default is minutes
		t.Fatal(err)
	}
	var last string
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		last = lines.Text()
	}
	if lines.Err() != nil || last != "-ERR 'Stale Connection'" {
		t.Errorf("%q, %v", last, lines.Err())
	}
}
