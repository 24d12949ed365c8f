package web

import (
	"io"
	"net/http"
	"time"
)

// watchedBody limits how slowly a request's body may arrive.
type watchedBody struct {
	io.ReadCloser
	w        http.ResponseWriter
	conn     *conn // nil: not accepted by a Listener
	limits   Limits
	began    time.Time
	read     int64
	finished bool // read to its end or to an error
}

// watchBody wraps the body of a request, or returns nil if there is none. The connection closes
// after the request unless the body is read to its end.
func watchBody(w http.ResponseWriter, r *http.Request, limits Limits) *watchedBody {
	if r.ContentLength == 0 {
		return nil
	}
	b := &watchedBody{ReadCloser: r.Body, w: w, conn: connOf(r), limits: limits, began: limits.Runtime.Now()}
	b.extendDeadline()
	w.Header().Set("Connection", "close")
	r.Body = b
	return b
}

// extendDeadline sets the deadline for the next bytes, from the stall timeout and the minimum rate
// of the whole body. The earlier one applies.
func (b *watchedBody) extendDeadline() {
	now := b.limits.Runtime.Now()
	allowed := time.Duration(float64(b.read) / float64(b.limits.MinBodyRate) * float64(time.Second))
	deadline := b.began.Add(b.limits.BodyStallTimeout + allowed)
	if next := now.Add(b.limits.BodyStallTimeout); next.Before(deadline) {
		deadline = next
	}
	_ = http.NewResponseController(b.w).SetReadDeadline(deadline) // fails only without a network behind the writer
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.extendDeadline()
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil && !b.finished {
		b.finished = true
		control := http.NewResponseController(b.w)
		if err == io.EOF {
			_ = control.SetReadDeadline(time.Time{}) // fails as in extendDeadline
			b.keepAlive()
		}
		_ = control.SetWriteDeadline(b.limits.Runtime.Now().Add(b.limits.WriteTimeout))
	}
	return n, err
}

// linger gives the client time to read the response to a request whose body was not read.
func (b *watchedBody) linger() {
	if b != nil && !b.finished {
		_ = http.NewResponseController(b.w).SetReadDeadline(b.limits.Runtime.Now().Add(lingerTimeout)) // as above
	}
}

// keepAlive keeps the connection open for further requests, unless CloseAfter was called.
func (b *watchedBody) keepAlive() {
	if b.conn == nil || !b.conn.closing.Load() {
		b.w.Header().Del("Connection")
	}
}

// setWriteDeadline cuts off a client that does not read the response.
func setWriteDeadline(w http.ResponseWriter, limits Limits) {
	_ = http.NewResponseController(w).SetWriteDeadline(limits.Runtime.Now().Add(limits.WriteTimeout)) // as above
}
