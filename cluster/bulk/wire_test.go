package bulk

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"troupe/messages"
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
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := &rawPeer{t: t, conn: conn, reader: reader{from: conn, allowed: toSender}}
	r.send(hi)
	if bytes.HasPrefix(hi, magic[:]) {
		var b [helloBytes]byte
		if _, err := io.ReadFull(conn, b[:]); err != nil {
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
		r.t.Fatalf("answer of kind %d, not opened", h.kind)
	}
}

// answer returns the next frame, or kind 0 where the connection ended.
func (r *rawPeer) answer() (header, string) {
	h, err := r.next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Fatal("no answer, and the connection was not closed")
	}
	if err != nil {
		return header{}, ""
	}
	b, err := r.checked(h, make([]byte, maxAckBytes))
	if err != nil {
		r.t.Fatal(err)
	}
	return h, string(b)
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s until %s", what)
		}
		<-time.After(time.Millisecond)
	}
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

// TestHostile says what no sender of this package says. Nothing is put, and the connection ends.
func TestHostile(t *testing.T) {
	p := listenRaw(t, Config{Window: 64 << 10, SilentAfter: 100 * time.Millisecond})
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
	until(t, "no connection is left", func() bool { return p.Stats().Inbound == 0 })
}

// TestMisuse sends what the transfer has no room for: its stream is refused, the connection goes on.
func TestMisuse(t *testing.T) {
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
		r.send(appendFrame(nil, header{kind: data, stream: 1, index: 0}, make([]byte, 10))) // it was on its way
		r.send(appendFrame(nil, header{kind: ping}, nil))
		if h, _ := r.answer(); h.kind != pong {
			t.Errorf("kind %d, not pong", h.kind)
		}
		p.Drop(ticket)
	}
	if len(got) != 0 {
		t.Errorf("chunks %d were put", got)
	}
}

// TestDamagedChunk refuses one chunk; the others of its stream are taken.
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

// TestQueueEnds: what a lost connection has brought does not wait for a slow sink; the sender will bring it again.
func TestQueueEnds(t *testing.T) {
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
	until(t, "chunks are queued", func() bool { return queued() == 9 })
	r.conn.Close()
	until(t, "they are let go", func() bool { return queued() == 0 })
}

// TestUnread asks and asks, and reads no answer.
func TestUnread(t *testing.T) {
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
	t.Error("64 MiB were asked")
}

// TestSealedFromOlder: a sender that knows nothing of seals sends DATA as ever, and the seal counts all the same. One that was not asked for seals may not send any.
func TestSealedFromOlder(t *testing.T) {
	p := listenRaw(t, Config{})
	put := make(chan uint32, 2)
	taken := func(index uint32, _ []byte) error { put <- index; return nil }
	ticket, err := p.ExpectSealed(100, 2, func(index uint32, _ int) hash.Hash64 { return xxh3.NewSeed(uint64(index)) }, taken)
	if err != nil {
		t.Fatal(err)
	}
	r := dialRaw(t, p, hello(0, 0))
	r.open(ticket)
	r.send(appendFrame(nil, header{kind: data, stream: 1, index: 0}, sealedAs(sealed, 1, []byte("of another"))))
	if h, _ := r.answer(); h.kind != damaged {
		t.Errorf("the answer to another's chunk is of kind %d", h.kind)
	}
	r.send(appendFrame(nil, header{kind: data, stream: 1, index: 1}, sealedAs(sealed, 1, []byte("its own"))))
	if h, _ := r.answer(); h.kind != acked || <-put != 1 {
		t.Errorf("the answer is of kind %d", h.kind)
	}
	plain, err := p.Expect(100, 2, taken)
	if err != nil {
		t.Fatal(err)
	}
	r = dialRaw(t, p, hello(0, 0))
	r.open(plain)
	r.send(appendFrame(nil, header{kind: sealed, stream: 1}, sealedAs(sealed, 0, []byte("unasked"))))
	if h, _ := r.answer(); h.kind != refused || len(put) != 0 {
		t.Errorf("the answer to a seal that was not asked for is of kind %d", h.kind)
	}
}

// rawReceiver takes one connection after the other and hands each to serve.
func rawReceiver(t *testing.T, window int, serve func(net.Conn, *reader)) *messages.BulkTicket {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var b [helloBytes]byte
			_, _ = io.ReadFull(conn, b[:])
			_, _ = conn.Write(hello(window, 0))
			serve(conn, &reader{from: conn, allowed: toReceiver})
			conn.Close()
		}
	}()
	return &messages.BulkTicket{Address: l.Addr().String(), Transfer: strings.Repeat("00", idBytes), Token: make([]byte, tokenBytes)}
}

// openAll answers that a transfer has chunks of 50000 bytes.
func openAll(conn net.Conn, r *reader) {
	h, err := r.next()
	if err == nil {
		_, err = r.checked(h, make([]byte, openBytes))
	}
	if err == nil {
		_, _ = conn.Write(appendFrame(nil, header{kind: opened, stream: h.stream}, []byte{0, 0, 0xc3, 0x50, 0, 1, 0, 0}))
	}
}

// TestInPlaceLetsGo: to a receiver that does not read any more, a chunk is written until nobody waits for it, and no longer; then its memory is the caller's.
func TestInPlaceLetsGo(t *testing.T) {
	p := listenRaw(t, Config{SilentAfter: time.Hour})
	ended, came := make(chan struct{}), make(chan []byte, 1)
	ticket := rawReceiver(t, 1<<30, func(conn net.Conn, r *reader) {
		h, err := r.next()
		if err == nil {
			_, err = r.checked(h, make([]byte, openBytes))
		}
		if err == nil {
			_, _ = conn.Write(appendFrame(nil, header{kind: opened, stream: h.stream}, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, MaxChunkBytes), 8)))
		}
		<-ended
		all, _ := io.ReadAll(conn)
		came <- all
	})
	ctx, cancel := context.WithCancel(t.Context())
	chunk := bytes.Repeat([]byte{1}, MaxChunkBytes)
	err := p.SendInPlace(ctx, ticket, []uint32{0, 1, 2, 3}, func(_ uint32, use func(...[]byte) error) error { // more than the system takes
		time.AfterFunc(50*time.Millisecond, cancel)
		err := use(chunk)
		clear(chunk)
		close(ended)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if all := <-came; len(all) < headerBytes || bytes.IndexByte(all[headerBytes:], 0) >= 0 {
		t.Errorf("of %d bytes that came some are from after the memory was let go of", len(all))
	}
}

// TestResume loses a connection on which 2 of 6 chunks were acknowledged. The next one brings the other 4, each once.
func TestResume(t *testing.T) {
	p := listenRaw(t, Config{})
	var came []uint32
	first := true
	ticket := rawReceiver(t, 1<<22, func(conn net.Conn, r *reader) {
		openAll(conn, r)
		for {
			h, err := r.next()
			if err != nil {
				return
			}
			if _ = r.discard(h); h.kind != data {
				continue
			}
			if !first {
				came = append(came, h.index)
			}
			if !first || h.index < 2 {
				_, _ = conn.Write(appendFrame(nil, header{kind: acked}, []byte{0, 0, 0, byte(h.stream), 0, 0, 0, byte(h.index)}))
			}
			if first && h.index == 5 {
				first = false
				return
			}
		}
	})
	err := p.Send(t.Context(), ticket, []uint32{0, 1, 2, 3, 4, 5}, func(uint32, []byte) (int, error) { return 10, nil })
	if slices.Sort(came); err != nil || !slices.Equal(came, []uint32{2, 3, 4, 5}) {
		t.Errorf("chunks %d came again; %v", came, err)
	}
	if s := p.Stats().Sent[ticket.GetAddress()]; s.Retries != 4 || s.Reconnects != 1 {
		t.Errorf("%+v", s)
	}
}

// TestAlwaysDamaged gives a chunk up after a bounded number of tries.
func TestAlwaysDamaged(t *testing.T) {
	p, tries := listenRaw(t, Config{}), 0
	ticket := rawReceiver(t, 1<<20, func(conn net.Conn, r *reader) {
		openAll(conn, r)
		for {
			h, err := r.next()
			if err != nil {
				return
			}
			if _ = r.discard(h); h.kind == data {
				tries++
				_, _ = conn.Write(appendFrame(nil, header{kind: damaged}, []byte{0, 0, 0, 1, 0, 0, 0, 3}))
			}
		}
	})
	err := p.Send(t.Context(), ticket, []uint32{3}, func(uint32, []byte) (int, error) { return 10, nil })
	if !errors.Is(err, ErrChecksum) || tries != maxTries {
		t.Errorf("%v after %d tries, not %d", err, tries, maxTries)
	}
}

// TestReceiverStops opens a transfer and reads no more. The context ends the Send; silence ends the connection.
func TestReceiverStops(t *testing.T) {
	for name, silentAfter := range map[string]time.Duration{"cancelled": time.Hour, "silent": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			p := listenRaw(t, Config{SilentAfter: silentAfter})
			stop := make(chan struct{})
			defer close(stop)
			ticket := rawReceiver(t, 1<<28, func(conn net.Conn, r *reader) {
				openAll(conn, r)
				<-stop
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				defer cancel()
				to, still := p.peer(ticket.GetAddress()), 0
				for before := uint64(0); still < 20 && to.reconnects.Load() < 3; still++ {
					if now := to.chunks.Load(); now != before || now == 0 || silentAfter < time.Minute {
						before, still = now, 0
					}
					<-time.After(time.Millisecond)
				}
			}()
			indices := make([]uint32, 5000)
			for i := range indices {
				indices[i] = uint32(i)
			}
			err := p.Send(ctx, ticket, indices, func(_ uint32, into []byte) (int, error) { return len(into), nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}
