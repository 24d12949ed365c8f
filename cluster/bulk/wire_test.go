package bulk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"troupe/messages"
	"troupe/testkit"
)

// rawPeer speaks to a plane frame by frame.
type rawPeer struct {
	t    *testing.T
	conn net.Conn
	reader
}

func dialRaw(t *testing.T, p *Plane, hi []byte) *rawPeer {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r := &rawPeer{t: t, conn: conn, reader: reader{from: conn, allowed: toSender}}
	r.send(hi)
	if bytes.HasPrefix(hi, magic[:]) {
		var b [helloBytes]byte
		// A plane with a short timeout may have closed the connection already.
		if _, err := io.ReadFull(conn, b[:]); err != nil && p.cfg.SilentAfter >= time.Second {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rawPeer) send(b []byte) { _, _ = r.conn.Write(b) }

// open opens stream 1.
func (r *rawPeer) open(ticket *messages.BulkTicket) {
	r.t.Helper()
	id, _ := hex.DecodeString(ticket.GetTransfer())
	r.send(appendFrame(nil, header{kind: open, stream: 1}, append(id, ticket.GetToken()...)))
	if h, _ := r.answer(); h.kind != opened {
		r.t.Fatalf("answer has kind %d, want opened", h.kind)
	}
}

// answer returns the next frame, or kind 0 if the connection ended.
func (r *rawPeer) answer() (header, string) {
	h, err := r.next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Fatal("no answer, and the connection was not closed")
	}
	if err != nil {
		return header{}, ""
	}
	b, err := r.readSmall(h, make([]byte, maxAckBytes))
	if err != nil {
		r.t.Fatal(err)
	}
	return h, string(b)
}

func listenRaw(t *testing.T, cfg Config) *Plane {
	t.Helper()
	p, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func rawHeader(kind, reserved byte, length uint32) []byte {
	b := make([]byte, headerBytes)
	header{kind: 0, stream: 1, length: length}.put(b)
	b[0], b[3] = kind, reserved
	sum := checksum(b[:20])
	b[20], b[21], b[22], b[23] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
	return b
}

// TestRejectsHostileFrames sends frames that no sender of this package sends. Nothing is put, and
// the connection ends.
func TestRejectsHostileFrames(t *testing.T) {
	patient, hasty := listenRaw(
		t,
		Config{Window: 64 << 10, SilentAfter: time.Hour},
	), listenRaw(
		t,
		Config{Window: 64 << 10, SilentAfter: 100 * time.Millisecond}, // sockets have deadlines in real time
	)
	hi := hello(0, 0)
	block := make(chan struct{})
	defer close(block)
	for name, say := range map[string]func(*rawPeer, *messages.BulkTicket){
		"another protocol":  nil,
		"another version":   nil,
		"damaged hello":     nil,
		"nothing":           nil,
		"hello and nothing": func(*rawPeer, *messages.BulkTicket) {},
		"unknown kind":      func(r *rawPeer, _ *messages.BulkTicket) { r.send(rawHeader(77, 0, 0)) },
		"an answer's kind":  func(r *rawPeer, _ *messages.BulkTicket) { r.send(rawHeader(byte(acked), 0, 8)) },
		"reserved bits":     func(r *rawPeer, _ *messages.BulkTicket) { r.send(rawHeader(byte(ping), 1, 0)) },
		"absurd length":     func(r *rawPeer, _ *messages.BulkTicket) { r.send(rawHeader(byte(data), 0, 1<<32-1)) },
		"long open":         func(r *rawPeer, _ *messages.BulkTicket) { r.send(rawHeader(byte(open), 0, openBytes+1)) },
		"damaged header": func(r *rawPeer, _ *messages.BulkTicket) {
			b := rawHeader(byte(ping), 0, 0)
			b[5] ^= 4
			r.send(b)
		},
		"damaged open": func(r *rawPeer, _ *messages.BulkTicket) {
			b := appendFrame(nil, header{kind: open, stream: 1}, make([]byte, openBytes))
			b[40] ^= 1
			r.send(b)
		},
		"a stream twice": func(r *rawPeer, ticket *messages.BulkTicket) {
			r.open(ticket)
			id, _ := hex.DecodeString(ticket.GetTransfer())
			r.send(appendFrame(nil, header{kind: open, stream: 1}, append(id, ticket.GetToken()...)))
		},
		"more than the window": func(r *rawPeer, ticket *messages.BulkTicket) {
			r.open(ticket)
			for i := range uint32(10) {
				r.send(appendFrame(nil, header{kind: data, stream: 1, index: i}, make([]byte, 20_000)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := patient
			if strings.HasSuffix(name, "nothing") {
				p = hasty
			}
			ticket, err := p.Expect(20_000, 10, func(uint32, []byte) error { <-block; return nil })
			if err != nil {
				t.Fatal(err)
			}
			first := hi
			switch name {
			case "another protocol":
				first = []byte("GET / HTTP/1.1\r\n\r\n")
			case "another version":
				first = hello(0, 0)
				first[5]++
				sum := checksum(first[:12])
				first[12], first[13], first[14], first[15] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
			case "damaged hello":
				first = hello(0, 0)
				first[9] ^= 1
			case "nothing":
				first = nil
			}
			r := dialRaw(t, p, first)
			if say != nil {
				say(r, ticket)
			}
			for h, _ := r.answer(); h.kind != 0; h, _ = r.answer() {
				if h.kind == acked {
					t.Error("a chunk was acknowledged")
				}
			}
		})
	}
	testkit.Until(t, "no connection is left", func() bool {
		return patient.Stats().Inbound+hasty.Stats().Inbound == 0
	})
}

// TestRejectsChunksBeyondTransfer sends chunks that exceed the transfer: its stream is refused, and
// the connection stays open.
func TestRejectsChunksBeyondTransfer(t *testing.T) {
	p := listenRaw(t, Config{})
	var got []uint32
	put := func(i uint32, _ []byte) error { got = append(got, i); return nil }
	for _, chunk := range []struct {
		index  uint32
		length int
	}{{0, 101}, {4, 100}} {
		ticket, err := p.Expect(100, 4, put)
		if err != nil {
			t.Fatal(err)
		}
		r := dialRaw(t, p, hello(0, 0))
		r.open(ticket)
		r.send(appendFrame(nil, header{kind: data, stream: 1, index: chunk.index}, make([]byte, chunk.length)))
		if h, text := r.answer(); h.kind != refused || h.index != refusedMisuse {
			t.Errorf("%+v: %+v %s", chunk, h, text)
		}
		r.send(appendFrame(nil, header{kind: data, stream: 1, index: 0}, make([]byte, 10))) // it was in flight
		r.send(appendFrame(nil, header{kind: ping}, nil))
		if h, _ := r.answer(); h.kind != pong {
			t.Errorf("kind %d, want pong", h.kind)
		}
		p.Drop(ticket)
	}
	if len(got) != 0 {
		t.Errorf("chunks %d were put", got)
	}
}

// TestDamagedChunk rejects one chunk; the others of its stream are put.
func TestDamagedChunk(t *testing.T) {
	p := listenRaw(t, Config{})
	ticket, err := p.Expect(100, 4, func(i uint32, b []byte) error {
		if string(b) != "fine" {
			return errors.New(string(b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := dialRaw(t, p, hello(0, 0))
	r.open(ticket)
	b := appendFrame(nil, header{kind: data, stream: 1, index: 2}, []byte("fine"))
	b[headerBytes+1] ^= 1
	r.send(b)
	if h, text := r.answer(); h.kind != damaged || text != "\x00\x00\x00\x01\x00\x00\x00\x02" {
		t.Errorf("%+v %q", h, text)
	}
	r.send(appendFrame(nil, header{kind: data, stream: 1, index: 2}, []byte("fine")))
	if h, text := r.answer(); h.kind != acked || text != "\x00\x00\x00\x01\x00\x00\x00\x02" {
		t.Errorf("%+v %q", h, text)
	}
}

// TestLostConnectionDropsQueue: queued chunks of a lost connection do not wait for a slow sink; the
// sender repeats them.
func TestLostConnectionDropsQueue(t *testing.T) {
	p := listenRaw(t, Config{})
	block := make(chan struct{})
	ticket, err := p.Expect(100, 10, func(uint32, []byte) error { <-block; return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer close(block)
	id, _ := parseID(ticket)
	queued := func() int {
		expected := p.transfer(id)
		expected.mu.Lock()
		defer expected.mu.Unlock()
		return len(expected.queue)
	}
	r := dialRaw(t, p, hello(0, 0))
	r.open(ticket)
	for i := range uint32(10) {
		r.send(appendFrame(nil, header{kind: data, stream: 1, index: i}, make([]byte, 100)))
	}
	testkit.Until(t, "chunks are queued", func() bool { return queued() == 9 })
	r.conn.Close()
	testkit.Until(t, "they are let go", func() bool { return queued() == 0 })
}

// TestUnreadAnswersCloseConnection sends pings and reads no answer.
func TestUnreadAnswersCloseConnection(t *testing.T) {
	p := listenRaw(t, Config{})
	ticket, err := p.Expect(1, 1, func(uint32, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	r := dialRaw(t, p, hello(0, 0))
	r.open(ticket)
	pings := bytes.Repeat(appendFrame(nil, header{kind: ping}, nil), 10_000)
	for range 64 << 20 / len(pings) {
		if _, err := r.conn.Write(pings); err != nil {
			return
		}
	}
	t.Error("the connection took 64 MiB of pings")
}

// TestSealedFromOlderSender checks that the receiver verifies the seals of a sender that does not
// support SEALED and sends DATA frames instead, and that it refuses SEALED frames for a transfer
// without seals.
func TestSealedFromOlderSender(t *testing.T) {
	p := listenRaw(t, Config{})
	put := make(chan uint32, 2)
	taken := func(index uint32, _ []byte) error { put <- index; return nil }
	ticket, err := p.ExpectSealed(
		100,
		2,
		func(index uint32, _ int) hash.Hash64 { return xxh3.NewSeed(uint64(index)) },
		taken,
	)
	if err != nil {
		t.Fatal(err)
	}
	r := dialRaw(t, p, hello(0, 0))
	r.open(ticket)
	r.send(appendFrame(nil, header{kind: data, stream: 1, index: 0}, sealedAs(sealed, 1, []byte("of another"))))
	if h, _ := r.answer(); h.kind != damaged {
		t.Errorf("the answer to another chunk's seal has kind %d", h.kind)
	}
	r.send(appendFrame(nil, header{kind: data, stream: 1, index: 1}, sealedAs(sealed, 1, []byte("its own"))))
	if h, _ := r.answer(); h.kind != acked || <-put != 1 {
		t.Errorf("the answer has kind %d", h.kind)
	}
	plain, err := p.Expect(100, 2, taken)
	if err != nil {
		t.Fatal(err)
	}
	r = dialRaw(t, p, hello(0, 0))
	r.open(plain)
	r.send(appendFrame(nil, header{kind: sealed, stream: 1}, sealedAs(sealed, 0, []byte("unasked"))))
	if h, _ := r.answer(); h.kind != refused || len(put) != 0 {
		t.Errorf("the answer to an unrequested seal has kind %d", h.kind)
	}
}
