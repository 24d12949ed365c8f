package dst

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fetched is what a client has received.
type fetched struct {
	body []byte
	end  ending
	at   time.Duration
}

// fetch sends a request to a handler and runs the world for a minute. do acts on the socket.
func fetch(t *testing.T, h http.HandlerFunc, do func(w *World, s *socket)) (f fetched) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(1)
		n := &Node{cfg: NodeConfig{Name: "n0"}, world: w, runtime: w.Runtime("n0"), dispatcher: w.Dispatcher("n0")}
		n.serving.handler = h
		began := time.Now()
		s := newSocket(w, n, "r", func(piece []byte, end ending) {
			f.body, f.end, f.at = append(f.body, piece...), end, time.Since(began)
		})
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://n0/", s)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.accept(s, r); err != nil {
			t.Fatal(err)
		}
		do(w, s)
		w.Run(time.Minute, never)
		if s.ended.IsZero() || len(n.serving.connections) > 0 {
			t.Error("the handler has not returned")
		}
	})
	return f
}

func writeParts(w http.ResponseWriter, _ *http.Request) {
	for i := range 40 {
		if _, err := w.Write(bytes.Repeat([]byte{byte('a' + i%26)}, 500)); err != nil {
			panic(http.ErrAbortHandler)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// TestSocketDelivers checks that a body that comes in parts, and a response, arrive completely and in
// order.
func TestSocketDelivers(t *testing.T) {
	f := fetch(t, func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err != nil || string(b) != "one two" {
			t.Errorf("body %q: %v", b, err)
		}
		writeParts(w, r)
	}, func(w *World, s *socket) {
		s.receive([]byte("one "), false)
		w.at(time.Now().Add(time.Second), func() string { return "rest" }, func() { s.receive([]byte("two"), true) })
	})
	if f.end != complete || len(f.body) != 40*500 || f.at < time.Second ||
		!bytes.HasPrefix(f.body[500:], []byte("bb")) {
		t.Errorf("%d bytes, end %v after %v", len(f.body), f.end, f.at)
	}
}

// TestSocketDeadlines checks that a client that does not read, or does not send, is cut off.
func TestSocketDeadlines(t *testing.T) {
	f := fetch(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(5 * time.Second))
		writeParts(w, r)
	}, func(w *World, s *socket) {
		s.setReading(false)
		w.at(time.Now().Add(10*time.Second), func() string { return "reads" }, func() { s.setReading(true) })
	})
	if f.end != broken || len(f.body) < window || len(f.body) > window+unflushed {
		t.Errorf("%d bytes, end %v", len(f.body), f.end)
	}
	fetch(t, func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		_ = http.NewResponseController(w).SetReadDeadline(began.Add(3 * time.Second))
		_, err := io.ReadAll(r.Body)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "timeout") || took != 3*time.Second {
			t.Errorf("read ends after %v: %v", took, err)
		}
	}, func(_ *World, s *socket) { s.receive([]byte("one"), false) })
}

// TestSocketBreaks checks that the context of the handler ends, and what the client sees, when the
// client leaves and when the node crashes.
func TestSocketBreaks(t *testing.T) {
	waits := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "lost")
		if http.NewResponseController(w).Flush() == nil {
			t.Error("a write to a broken connection succeeds")
		}
	}
	after := func(act func(s *socket)) func(*World, *socket) {
		return func(w *World, s *socket) {
			w.at(time.Now().Add(time.Second), func() string { return "act" }, func() { act(s) })
		}
	}
	if f := fetch(t, waits, after((*socket).leave)); string(f.body) != "begun" || f.end != more {
		t.Errorf("a client that left has %q, end %v", f.body, f.end)
	}
	if f := fetch(t, waits, after((*socket).crash)); string(f.body) != "begun" || f.end != broken {
		t.Errorf("after a crash the client has %q, end %v", f.body, f.end)
	}
}
