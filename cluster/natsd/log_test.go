package natsd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestLogBounded checks that errors that clients cause by the thousand produce a bounded number of
// lines, and that each one is reported as refused.
func TestLogBounded(t *testing.T) {
	log, refused := &bytes.Buffer{}, 0
	l := newLogger(&Config{Log: zerolog.New(log), OnRefused: func(address, what string) {
		if refused++; address != "127.0.0.1:5" || !strings.HasSuffix(what, "authentication error") {
			t.Errorf("%q %q", address, what)
		}
	}})
	for range 10_000 {
		l.Errorf("%s - cid:%d - %v", "127.0.0.1:5", 7, "authentication error")
	}
	l.Warnf("a route is slow")
	if n := strings.Count(log.String(), "\n"); n > 200 || n < logBurst || refused != 10_000 {
		t.Errorf("%d lines, %d refused", n, refused)
	}
}
