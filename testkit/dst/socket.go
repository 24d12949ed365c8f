package dst

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// socket is the connection of an HTTP client to a node, for one request. It takes the place of
// the socket and of net/http's server: it is the body of the request and the http.ResponseWriter,
// and what the handler writes arrives at the client in order, after a delay.
type socket struct {
	world  *World
	node   *Node
	id     string
	arrive func(piece []byte, end ending) // called for each piece of the response
	cancel context.CancelFunc             // ends the context of the request

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	body    []byte        // received from the client, and not read by the handler yet
	bodyEnd bool          // the rest of the body is in body
	lost    bool          // the client has left, or the node has crashed, or a deadline has passed
	closed  bool          // the client has left, so nothing arrives there
	began   time.Time     // start of the handler
	left    time.Time     // when the handler returned
	ended   time.Time     // end of the response; zero: the handler runs
	late    bool          // the node refused requests when the handler began

	header       http.Header
	status       int
	unsent       []byte     // written but not flushed
	pieces       []*arrival // under way to the client, in order
	inFlight     int        // bytes in pieces
	sent         int        // number of all pieces so far
	reading      bool       // the client reads
	readDeadline time.Time
	deadline     time.Time // for writes
}

// ending is how a response ended.
type ending int

const (
	more     ending = iota // it has not ended
	complete               // the handler returned
	broken                 // the connection broke before the response was complete
)

// arrival is a piece of a response on its way to the client.
type arrival struct {
	piece []byte
	end   ending
	here  bool // the client can read it
}

const (
	// window is the number of bytes under way to a client beyond which writes wait.
	window = 4 << 10
	// unflushed is the number of bytes that are written to the client without a flush.
	unflushed = 2 << 10
)

func newSocket(w *World, n *Node, id string, arrive func([]byte, ending)) *socket {
	return &socket{world: w, node: n, id: id, arrive: arrive, changed: make(chan struct{}), reading: true,
		header: make(http.Header)}
}

// signal wakes the handler if it waits for a change. The caller must hold c.mu.
func (c *socket) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits for a change or a deadline. The caller must hold c.mu.
func (c *socket) await(deadline time.Time) {
	changed := c.changed
	c.mu.Unlock()
	if !deadline.IsZero() {
		timer := c.node.runtime.AfterFunc(time.Until(deadline), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.signal()
		})
		defer timer.Stop()
	}
	<-changed
	c.mu.Lock()
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// receive adds a part of the body.
func (c *socket) receive(part []byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body, c.bodyEnd = append(c.body, part...), last
	c.signal()
}

// Read implements io.Reader for the body.
func (c *socket) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.lost:
			return 0, io.ErrUnexpectedEOF
		case len(c.body) > 0:
			n := copy(p, c.body)
			c.body = c.body[n:]
			return n, nil
		case c.bodyEnd:
			return 0, io.EOF
		case passed(c.readDeadline):
			return 0, os.ErrDeadlineExceeded
		}
		c.await(c.readDeadline)
	}
}

// Close implements io.Closer for the body.
func (c *socket) Close() error { return nil }

// Header implements http.ResponseWriter.
func (c *socket) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *socket) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == 0 {
		c.status = status
		c.header = c.header.Clone() // later changes are not sent
	}
}

// Write implements http.ResponseWriter.
func (c *socket) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	c.mu.Lock()
	c.unsent = append(c.unsent, b...)
	full := len(c.unsent) >= unflushed
	c.mu.Unlock()
	if full {
		return len(b), c.FlushError()
	}
	return len(b), nil
}

// FlushError sends what was written, once there is room for it. The handler continues in a task of
// its own.
func (c *socket) FlushError() error {
	c.node.takeTurn("http " + c.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.inFlight >= window && !c.lost && !passed(c.deadline) {
		c.await(c.deadline)
	}
	if passed(c.deadline) && !c.lost {
		c.lost = true
		c.send(nil, broken)
		return os.ErrDeadlineExceeded
	}
	if c.lost {
		return net.ErrClosed
	}
	c.send(c.unsent, more)
	c.unsent = nil
	return nil
}

// send sends a piece to the client. The caller must hold c.mu.
func (c *socket) send(piece []byte, end ending) {
	next := &arrival{piece: piece, end: end}
	c.pieces = append(c.pieces, next)
	c.inFlight += len(piece)
	c.sent++
	delay := time.Duration(1+hashOf([]byte(c.id), []byte{byte(c.sent), byte(c.sent >> 8)})[0]) * 10 * time.Microsecond
	c.world.at(time.Now().Add(delay), func() string {
		return fmt.Sprintf("client <- %s %x", c.id, hashOf(piece))
	}, func() {
		c.mu.Lock()
		next.here = true
		c.mu.Unlock()
		c.pump()
	})
}

// pump passes the pieces that have arrived to the client, unless it does not read.
func (c *socket) pump() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pieces) > 0 && c.pieces[0].here && c.reading && !c.closed {
		next := c.pieces[0]
		c.pieces = c.pieces[1:]
		c.inFlight -= len(next.piece)
		c.arrive(next.piece, next.end)
		c.signal()
	}
}

// setReading lets the client stop or continue to read.
func (c *socket) setReading(reading bool) {
	c.mu.Lock()
	c.reading = reading
	c.mu.Unlock()
	c.pump()
}

// leave closes the connection on the side of the client.
func (c *socket) leave() {
	c.mu.Lock()
	c.closed, c.lost = true, true
	c.signal()
	c.mu.Unlock()
	c.cancel()
}

// crash breaks the connection on the side of the node, unless its handler has returned. What has not
// arrived yet is lost.
func (c *socket) crash() {
	c.mu.Lock()
	if !c.ended.IsZero() {
		c.mu.Unlock()
		return
	}
	if !c.lost {
		c.pieces, c.inFlight = nil, 0
		c.send(nil, broken)
	}
	c.lost = true
	c.signal()
	c.mu.Unlock()
	c.cancel()
}

// SetReadDeadline lets http.ResponseController set the deadline of the body.
func (c *socket) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	return nil
}

// SetWriteDeadline lets http.ResponseController set the deadline of the response.
func (c *socket) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

// serve calls the handler as net/http does.
func (c *socket) serve(h http.Handler, r *http.Request) {
	c.mu.Lock()
	c.began, c.late = time.Now(), c.node.serving.isStopping()
	c.mu.Unlock()
	aborted := c.call(h, r)
	left := time.Now()
	c.node.takeTurn("http " + c.id + " ends")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.ended = left, time.Now()
	c.node.forget(c)
	c.cancel()
	if c.lost {
		return
	}
	if aborted {
		c.send(c.unsent, broken)
		return
	}
	c.send(c.unsent, complete)
}

// call calls the handler and reports whether it aborted the response.
func (c *socket) call(h http.Handler, r *http.Request) (aborted bool) {
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			aborted = true
		}
	}()
	h.ServeHTTP(c, r)
	return false
}
