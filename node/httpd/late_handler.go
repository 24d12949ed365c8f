package httpd

import (
	"net/http"
	"sync/atomic"
)

// lateHandler is a handler that can be replaced while it serves.
type lateHandler struct{ now atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.now.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.now.Load()).ServeHTTP(w, r)
}
