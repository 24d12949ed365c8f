package dst

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// httpClient sends a request to the gateways, and again if the connection breaks, until it has a
// response. It checks the response as it arrives.
type httpClient struct {
	*request
	cluster *cluster

	first   int           // index of the node that gets the request first
	split   int           // bytes of the body that are sent first
	pause   time.Duration // between the parts of the body
	stall   int           // number of pieces after which it stops to read for some time; 0: never
	stalled time.Duration // how long it has stopped to read

	attempts   int
	node       *Node // of the current attempt
	connection *socket
	sent       time.Time // the last byte of the body
	response   response  // of the current attempt

	ended   bool
	refused string // why it was refused; "": it was not
	served  bool
	left    bool     // it has left before the end
	wrong   []string // violations that were found
}

const (
	// maxAttempts bounds the attempts of a request whose connection breaks.
	maxAttempts = 6
	retryAfter  = 700 * time.Millisecond
	// bodyStall is the time within which a node expects the next bytes of a body.
	bodyStall = 10 * time.Second
)

func (h *httpClient) fail(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// after runs a task of the client after some time, unless the client is done by then.
func (h *httpClient) after(d time.Duration, what string, do func()) {
	h.cluster.world.at(time.Now().Add(d), func() string { return "client " + h.id + " " + what }, func() {
		if !h.ended {
			do()
		}
	})
}

// send sends the request to the next node.
func (h *httpClient) send() {
	c := h.cluster
	h.node = c.nodes[c.names[(h.first+h.attempts)%len(c.names)]]
	h.attempts++
	h.response = newResponse(h.request)
	r, err := http.NewRequest(http.MethodPost, "http://"+h.node.cfg.Name+h.path, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+h.key.secret)
	for name, value := range h.headers {
		r.Header.Set(name, value)
	}
	r.RemoteAddr, r.ContentLength = "192.0.2.1:1024", int64(len(h.body))
	conn := newSocket(c.world, h.node, fmt.Sprintf("%s-%d", h.id, h.attempts), nil)
	conn.arrive = func(piece []byte, end ending) { h.receive(conn, piece, end) }
	r.Body = conn
	if h.connection = nil; h.node.accept(conn, r) != nil {
		h.retry()
		return
	}
	h.connection = conn
	conn.receive(h.body[:h.split], h.split == len(h.body))
	h.sent = time.Now()
	if h.split < len(h.body) {
		h.sent = h.sent.Add(h.pause)
		h.after(h.pause, "sends the rest", func() { conn.receive(h.body[h.split:], true) })
	}
}

// retry sends the request again, or gives up.
func (h *httpClient) retry() {
	if h.attempts >= maxAttempts {
		h.ended = true
		return
	}
	h.after(retryAfter, "tries again", h.send)
}

// leave closes the connection before the response has ended.
func (h *httpClient) leave() {
	h.ended, h.left = true, true
	if h.connection != nil {
		h.connection.leave()
		h.cluster.checkSessions(h.node)
	}
}

// receive handles a piece of a response. The connection's lock is held.
func (h *httpClient) receive(conn *socket, piece []byte, end ending) {
	if h.ended || conn != h.connection {
		return
	}
	r := &h.response
	if r.pieces++; r.pieces == h.stall {
		h.stalled = time.Duration(1+len(h.body)%7) * 500 * time.Millisecond
		conn.reading = false
		h.after(0, "reads no more", func() { conn.setReading(false) })
		h.after(h.stalled, "reads again", func() { conn.setReading(true) })
	}
	r.body = append(r.body, piece...)
	streamed := conn.status == http.StatusOK && h.stream
	for streamed {
		event, rest, found := bytes.Cut(r.body, []byte("\n\n"))
		if !found {
			break
		}
		r.body = rest
		h.event(event)
	}
	switch {
	case end == more:
		return
	case end == broken && r.failed != nil:
		h.refuse(http.StatusOK, conn.header)
	case end == broken:
		if !conn.node.crashed && h.stalled == 0 && !h.lateByPause() {
			h.fail("the connection to %s broke without a reason", conn.node.cfg.Name)
		}
		h.retry()
		return
	case conn.status != http.StatusOK:
		h.parse(r.body)
		h.refuse(conn.status, conn.header)
	case streamed:
		h.finishStream()
	default:
		h.parse(r.body)
		h.finish()
	}
	h.cluster.checkSessions(h.node)
	h.checkDuration(conn)
	h.ended = true
}

// lateByPause reports whether the time of the request was up while its node was paused, which is then
// too late to write an error.
func (h *httpClient) lateByPause() bool {
	return h.timeout > 0 && time.Since(h.sent) >= h.timeout &&
		slices.ContainsFunc(h.cluster.result.Faults, func(f Fault) bool {
			return f.Kind == Pause && f.Node == h.node.cfg.Name
		})
}

// checkDuration checks that the response has not taken much longer than the request's timeout. The
// actors of a node that is paused are late.
func (h *httpClient) checkDuration(conn *socket) {
	const late, paused = 2 * time.Second, 3 * time.Second
	if took := conn.ended.Sub(h.sent); h.timeout > 0 && took > h.timeout+late+paused+h.stalled {
		h.fail("the response took %v, with a timeout of %v", took, h.timeout)
	}
}
