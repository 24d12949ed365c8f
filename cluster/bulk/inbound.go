package bulk

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"sync"
	"time"
)

// inbound is a connection from a sender. One goroutine reads and one writes answers; put runs in a
// goroutine per transfer.
type inbound struct {
	plane      *Plane
	conn       net.Conn
	wake       chan struct{} // answers are queued, or the connection drains
	readerDone chan struct{} // closed when the reader has ended

	mu       sync.Mutex
	streams  map[uint32]*transfer
	reserved int       // bytes of the window in use
	acked    []byte    // queued entries
	damaged  []byte    // queued entries
	frames   []byte    // other queued answers
	draining bool      // close once the queue is empty
	trusted  bool      // the sender has opened a transfer
	deadline time.Time // read deadline of the connection
}

// serve reads frames until the connection ends.
func (in *inbound) serve() {
	defer close(in.readerDone)
	err := in.handshake()
	if err == nil {
		in.plane.goRun(in.write)
		err = in.read()
	}
	in.conn.Close()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		in.plane.cfg.Log.Warn().Err(err).Str("peer", in.conn.RemoteAddr().String()).Msg("bulk connection ended")
	}
	in.plane.dropInbound(in)
}

func (in *inbound) handshake() error {
	if err := in.conn.SetDeadline(in.plane.now().Add(in.plane.cfg.handshakeTimeout())); err != nil {
		return err
	}
	var b [helloBytes]byte
	if _, err := io.ReadFull(in.conn, b[:]); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	if [4]byte(b[:]) == magic { // tell a sender of another version ours
		if _, err := in.conn.Write(hello(in.plane.cfg.Window, featureHashed)); err != nil {
			return fmt.Errorf("hello: %w", err)
		}
	}
	_, _, err := parseHello(b[:])
	return err
}

func (in *inbound) read() error {
	r := &reader{from: in.conn, allowed: toReceiver}
	var small [openBytes]byte
	for {
		in.extendDeadline()
		h, err := r.next()
		if err != nil {
			return err
		}
		switch h.kind {
		case open:
			b, err := r.readSmall(h, small[:])
			if err != nil {
				return err
			}
			if err := in.open(h.stream, transferID(b), b[idBytes:]); err != nil {
				return err
			}
		case data, hashed, sealed:
			if err := in.data(r, h); err != nil {
				return err
			}
		case closing:
			in.closeStream(h.stream)
		case ping:
			in.send(header{kind: pong}, nil)
		}
	}
}

// extendDeadline gives a sender that has opened a transfer more time. Before that, the deadline of
// the handshake applies.
func (in *inbound) extendDeadline() {
	in.mu.Lock()
	defer in.mu.Unlock()
	limit := in.plane.cfg.IdleAfter + in.plane.cfg.SilentAfter
	if now := in.plane.now(); in.trusted && !in.draining && in.deadline.Sub(now) < limit*3/4 {
		in.deadline = now.Add(limit)
		_ = in.conn.SetReadDeadline(in.deadline)
	}
}

// open answers whether the sender may send a transfer.
func (in *inbound) open(stream uint32, id transferID, token []byte) error {
	t := in.plane.transfer(id)
	if t == nil || subtle.ConstantTimeCompare(t.token[:], token) != 1 {
		in.refuse(stream, refusal{refusedUnknown, "no transfer with this id and token"})
		return nil
	}
	in.mu.Lock()
	if _, taken := in.streams[stream]; taken || len(in.streams) >= maxStreams {
		in.mu.Unlock()
		return fmt.Errorf("stream %d is already open, or %d streams are", stream, maxStreams)
	}
	in.streams[stream], in.trusted = t, true
	in.mu.Unlock()
	if why := t.open(inboundStream{in, stream}); why != nil {
		in.refuse(stream, *why)
		return nil
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(t.chunkBytes))
	ask := uint32(0)
	if t.seal != nil {
		ask = flagSealed
	}
	in.send(header{kind: opened, stream: stream, index: ask}, binary.BigEndian.AppendUint32(b, t.chunks))
	return nil
}

// closeStream removes a stream that the sender has closed.
func (in *inbound) closeStream(stream uint32) {
	in.mu.Lock()
	t := in.streams[stream]
	delete(in.streams, stream)
	in.mu.Unlock()
	if t != nil {
		t.close(inboundStream{in, stream})
	}
}

// data receives a chunk. A chunk without an open stream is discarded: it was in flight when the
// stream was refused.
func (in *inbound) data(r *reader, h header) error {
	in.mu.Lock()
	t := in.streams[h.stream]
	in.mu.Unlock()
	if t == nil {
		return r.discard(h)
	}
	if int(h.length) > t.chunkBytes || h.index >= t.chunks || h.kind == sealed && t.seal == nil {
		t.close(inboundStream{in, h.stream})
		in.refuse(
			h.stream,
			refusal{
				refusedMisuse,
				fmt.Sprintf(
					"chunk %d of %d bytes; the transfer has %d chunks of at most %d",
					h.index,
					h.length,
					t.chunks,
					t.chunkBytes,
				),
			},
		)
		return r.discard(h)
	}
	c := &chunk{inboundStream: inboundStream{in, h.stream}, index: h.index, length: int(h.length)}
	if err := in.reserve(c); err != nil {
		return err
	}
	c.buf = in.plane.buffers.get(t.chunkBytes + headerBytes)
	var seal hash.Hash64
	if t.seal != nil {
		seal = t.seal(h.index, c.length-SealBytes)
	}
	intact, err := r.fill(c.buf, h, seal)
	if err != nil {
		return err
	}
	if t.seal != nil && h.kind != sealed { // the sender does not know SEALED
		intact = intact && sealIntact(c.buf[:c.length], seal)
	}
	t.enqueue(c, intact)
	return nil
}

// reserve takes space in the window for a chunk. It fails if the sender exceeds the window.
func (in *inbound) reserve(c *chunk) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	c.cost = c.length + frameCost
	if in.reserved+c.cost > in.plane.cfg.Window {
		return fmt.Errorf("sender exceeds the window of %d bytes", in.plane.cfg.Window)
	}
	in.reserved += c.cost
	return nil
}

// release frees a chunk's space in the window, once.
func (in *inbound) release(c *chunk) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.reserved -= c.cost
	c.cost = 0
}

// refuse ends a stream.
func (in *inbound) refuse(stream uint32, why refusal) {
	in.mu.Lock()
	delete(in.streams, stream)
	in.mu.Unlock()
	in.send(header{kind: refused, stream: stream, index: why.code}, []byte(why.text[:min(len(why.text), maxText)]))
}
