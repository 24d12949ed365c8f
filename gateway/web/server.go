package web

import (
	"context"
	"log"
	"net"
	"net/http"
)

// probes are answered on spare connections too.
var probes = map[string]bool{"/live": true, "/health": true, "/ready": true}

type connKey struct{}

// NewServer returns a server for the connections of a Listener, with or without TLS around it. busy
// answers the requests of spare connections.
func NewServer(limits Limits, handler, busy http.Handler, log *log.Logger) *http.Server {
	limits = limits.WithDefaults()
	return &http.Server{
		Handler: guard(limits, handler, busy), ReadHeaderTimeout: limits.Header, IdleTimeout: limits.Idle,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: log,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: limits.Streams, WriteByteTimeout: limits.Write,
			SendPingTimeout: limits.Idle, PingTimeout: limits.Header,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, counted(c))
		},
	}
}

// CloseAfter closes the connection of a request after its answer. A "Connection: close" header that
// a handler sets by itself is removed when the body has been read.
func CloseAfter(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	if c := connOf(r); c != nil {
		c.closing.Store(true)
	}
}

// connOf returns the connection of a request; nil if no Listener accepted it.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// guard sets the deadlines of a request and answers those of spare connections.
func guard(limits Limits, handler, busy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setWriteDeadline(w, limits.Write)
		b := watch(w, r, limits)
		defer b.abandon()
		if c := connOf(r); c != nil && c.spare {
			CloseAfter(w, r)
			if b != nil || r.Method != http.MethodGet || !probes[r.URL.Path] {
				busy.ServeHTTP(w, r)
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}
