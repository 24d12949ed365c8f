package web

import (
	"context"
	"log"
	"net"
	"net/http"
)

// probes are the paths that are also served on overflow connections.
var probes = map[string]bool{"/live": true, "/health": true, "/ready": true}

type connKey struct{}

// NewServer returns a server for the connections of a Listener, with or without TLS. busy serves
// the requests of overflow connections.
func NewServer(limits Limits, handler, busy http.Handler, log *log.Logger) *http.Server {
	limits = limits.WithDefaults()
	return &http.Server{
		Handler:           limitRequests(limits, handler, busy),
		ReadHeaderTimeout: limits.HeaderTimeout, IdleTimeout: limits.IdleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: log,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: limits.MaxStreams, WriteByteTimeout: limits.WriteTimeout,
			SendPingTimeout: limits.IdleTimeout, PingTimeout: limits.HeaderTimeout,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, listenerConn(c))
		},
	}
}

// CloseAfter closes the connection of a request after its response. A handler must not set the
// "Connection: close" header directly, since it is removed when the body has been read.
func CloseAfter(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	if c := connOf(r); c != nil {
		c.closing.Store(true)
	}
}

// connOf returns the connection of a request, or nil if no Listener accepted it.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// limitRequests sets the deadlines of requests and passes those of overflow connections to busy.
func limitRequests(limits Limits, handler, busy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setWriteDeadline(w, limits)
		b := watchBody(w, r, limits)
		defer b.linger()
		if c := connOf(r); c != nil && c.overflow {
			CloseAfter(w, r)
			if b != nil || r.Method != http.MethodGet || !probes[r.URL.Path] {
				busy.ServeHTTP(w, r)
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}
