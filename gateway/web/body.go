package web

import (
	"io"
	"net/http"
	"time"
)

// body reads a request's body as long as the client makes progress.
type watchedBody struct {
	io.ReadCloser
	w        http.ResponseWriter
	limits   Limits
	began    time.Time
	read     int64
	finished bool // it was read to its end, or an error
}

// watch replaces the body of a request, if it has one. The connection ends with the request unless
// all of it is read.
func watchBody(w http.ResponseWriter, r *http.Request, limits Limits) *watchedBody {
	if r.ContentLength == 0 {
		return nil
	}
	b := &watchedBody{ReadCloser: r.Body, w: w, limits: limits, began: time.Now()}
	b.extendDeadline()
	w.Header().Set("Connection", "close")
	r.Body = b
	return b
}

// extend sets the deadline for the next bytes: the sooner of a pause and of what the least rate
// allows for the whole.
func (b *watchedBody) extendDeadline() {
	now := time.Now()
	whole := b.began.Add(
		b.limits.BodyStallTimeout + time.Duration(float64(b.read)/float64(b.limits.MinBodyRate)*float64(time.Second)),
	)
	if next := now.Add(b.limits.BodyStallTimeout); next.Before(whole) {
		whole = next
	}
	_ = http.NewResponseController(b.w).SetReadDeadline(whole) // a writer without deadlines has no network behind it
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
			_ = control.SetReadDeadline(time.Time{}) // as in extend
			keepAlive(b.w)
		}
		_ = control.SetWriteDeadline(time.Now().Add(b.limits.WriteTimeout))
	}
	return n, err
}

// linger gives a client whose body was not read a moment to read the answer.
func (b *watchedBody) linger() {
	if b != nil && !b.finished {
		_ = http.NewResponseController(b.w).SetReadDeadline(time.Now().Add(lingerTimeout)) // as in extend
	}
}

// keepAlive lets the connection serve further requests.
func keepAlive(w http.ResponseWriter) { w.Header().Del("Connection") }

// setWriteDeadline cuts off a client that does not take an answer.
func setWriteDeadline(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // as in extend
}
