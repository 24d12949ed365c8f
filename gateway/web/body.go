package web

import (
	"io"
	"net/http"
	"time"
)

// body reads a request's body as long as the client makes progress.
type body struct {
	io.ReadCloser
	w       http.ResponseWriter
	conn    *conn // nil: not of a Listener
	limits  Limits
	began   time.Time
	read    int64
	stopped bool // it was read to its end, or an error
}

// watch replaces the body of a request, if it has one. The connection ends with the request unless
// all of it is read.
func watch(w http.ResponseWriter, r *http.Request, limits Limits) *body {
	if r.ContentLength == 0 {
		return nil
	}
	b := &body{ReadCloser: r.Body, w: w, conn: connOf(r), limits: limits, began: time.Now()}
	b.extend()
	w.Header().Set("Connection", "close")
	r.Body = b
	return b
}

// extend sets the deadline for the next bytes: the sooner of a pause and of what the least rate
// allows for the whole.
func (b *body) extend() {
	now := time.Now()
	whole := b.began.Add(b.limits.Stall + time.Duration(float64(b.read)/float64(b.limits.Rate)*float64(time.Second)))
	if next := now.Add(b.limits.Stall); next.Before(whole) {
		whole = next
	}
	_ = http.NewResponseController(b.w).SetReadDeadline(whole) // a writer without deadlines has no network behind it
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil && !b.stopped {
		b.stopped = true
		control := http.NewResponseController(b.w)
		if err == io.EOF {
			_ = control.SetReadDeadline(time.Time{}) // as in extend
			b.keepAlive()
		}
		_ = control.SetWriteDeadline(time.Now().Add(b.limits.Write))
	}
	return n, err
}

// abandon gives a client whose body was not read a moment to read the answer.
func (b *body) abandon() {
	if b != nil && !b.stopped {
		_ = http.NewResponseController(b.w).SetReadDeadline(time.Now().Add(linger)) // as in extend
	}
}

// keepAlive lets the connection serve further requests, unless the handler wants it closed.
func (b *body) keepAlive() {
	if b.conn == nil || !b.conn.closing.Load() {
		b.w.Header().Del("Connection")
	}
}

// setWriteDeadline cuts off a client that does not take an answer.
func setWriteDeadline(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // as in extend
}
