package httpd

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestWebLog checks that the error log of the HTTP server is limited and leaves out the values of
// panics.
func TestWebLog(t *testing.T) {
	var mu sync.Mutex
	log := &bytes.Buffer{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("the\nPROMPT of a client\n: PROMPT")
	}))
	server.Config.ErrorLog = newLog(zerolog.New(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	})))
	server.StartTLS()
	defer server.Close()
	logged := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	if _, err := server.Client().Get(server.URL); err == nil {
		t.Error("a panicking handler answers")
	}
	panicked := func() bool { return strings.Contains(logged(), "panic serving 127.0.0.1:") }
	for end := time.Now().Add(30 * time.Second); !panicked(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the panic is not logged: %s", logged())
		}
	}
	for range 500 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("this is no TLS\r\n\r\n"))
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		// until the server closes the connection
		for _, err = conn.Read(make([]byte, 512)); err == nil; _, err = conn.Read(make([]byte, 512)) {
		}
		conn.Close()
	}
	if _, err := tls.Dial("tcp", server.Listener.Addr().String(), nil); err == nil {
		t.Error("the certificate of the test is trusted")
	}
	text := logged()
	if strings.Contains(text, "PROMPT") || !strings.Contains(text, `"stack":"`) {
		t.Errorf("%s", text)
	}
	if n := strings.Count(text, "\n"); n < 5 || n > 100 || !strings.Contains(text, "TLS handshake error") {
		t.Errorf("%d lines: %s", n, text)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
