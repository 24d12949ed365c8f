package bulk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// rawReceiver accepts one connection after another and passes each to serve.
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
	return &messages.BulkTicket{
		Address:  l.Addr().String(),
		Transfer: strings.Repeat("00", idBytes),
		Token:    make([]byte, tokenBytes),
	}
}

// openAll answers OPEN with chunks of 50000 bytes.
func openAll(conn net.Conn, r *reader) {
	h, err := r.next()
	if err == nil {
		_, err = r.readSmall(h, make([]byte, openBytes))
	}
	if err == nil {
		_, _ = conn.Write(
			appendFrame(nil, header{kind: opened, stream: h.stream}, []byte{0, 0, 0xc3, 0x50, 0, 1, 0, 0}),
		)
	}
}

// TestInPlaceReleasesMemory: a chunk is written to a receiver that stopped reading until the
// context ends. Then the caller owns its memory again.
func TestInPlaceReleasesMemory(t *testing.T) {
	p := listenRaw(t, Config{SilentAfter: time.Hour})
	begun, ended, came := make(chan struct{}), make(chan struct{}), make(chan []byte, 1)
	ticket := rawReceiver(t, 1<<30, func(conn net.Conn, r *reader) {
		h, err := r.next()
		if err == nil {
			_, err = r.readSmall(h, make([]byte, openBytes))
		}
		if err == nil {
			_, _ = conn.Write(
				appendFrame(
					nil,
					header{kind: opened, stream: h.stream},
					binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, MaxChunkBytes), 8),
				),
			)
		}
		begin := make([]byte, headerBytes+1)
		_, _ = io.ReadFull(conn, begin)
		close(begun)
		<-ended
		all, _ := io.ReadAll(conn)
		came <- append(begin, all...)
	})
	ctx, cancel := context.WithCancel(t.Context())
	chunk := bytes.Repeat([]byte{1}, MaxChunkBytes)
	err := p.SendInPlace(
		ctx,
		ticket,
		[]uint32{0, 1, 2, 3},
		func(_ uint32, use func(...[]byte) error) error { // more than the kernel buffers
			go func() { <-begun; cancel() }()
			err := use(chunk)
			clear(chunk)
			close(ended)
			return err
		},
	)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if all := <-came; len(all) < headerBytes || bytes.IndexByte(all[headerBytes:], 0) >= 0 {
		t.Errorf("some of %d received bytes were written after the memory was released", len(all))
	}
}

// TestResume loses a connection on which 2 of 6 chunks were acknowledged. The next one carries the
// other 4, each once.
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
				_, _ = conn.Write(
					appendFrame(nil, header{kind: acked}, []byte{0, 0, 0, byte(h.stream), 0, 0, 0, byte(h.index)}),
				)
			}
			if first && h.index == 5 {
				first = false
				return
			}
		}
	})
	err := p.Send(
		t.Context(),
		ticket,
		[]uint32{0, 1, 2, 3, 4, 5},
		func(uint32, []byte) (int, error) { return 10, nil },
	)
	if slices.Sort(came); err != nil || !slices.Equal(came, []uint32{2, 3, 4, 5}) {
		t.Errorf("chunks %d were sent again; %v", came, err)
	}
	if s := p.Stats().Sent[ticket.GetAddress()]; s.Retries != 4 || s.Reconnects != 1 {
		t.Errorf("%+v", s)
	}
}

// TestAlwaysDamaged checks that Send gives up on a chunk that arrives damaged every time, after
// maxTries tries.
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
		t.Errorf("%v after %d tries, want %d", err, tries, maxTries)
	}
}

// TestReceiverStops opens a transfer and stops reading. The context ends the Send, and the silence
// ends the connection.
func TestReceiverStops(t *testing.T) {
	for name, silent := range map[string]bool{"cancelled": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			later := clock.New()
			p := listenRaw(t, Config{Runtime: later})
			stop := make(chan struct{})
			defer close(stop)
			ticket := rawReceiver(t, 1<<28, func(conn net.Conn, r *reader) {
				openAll(conn, r)
				<-stop
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			indices := make([]uint32, 5000)
			for i := range indices {
				indices[i] = uint32(i)
			}
			read := func(_ uint32, into []byte) (int, error) { return len(into), nil }
			sent := make(chan error, 1)
			go func() { sent <- p.Send(ctx, ticket, indices, read) }()
			to := p.peer(ticket.GetAddress())
			before, still := uint64(0), 0
			testkit.Until(t, "the sender is blocked", func() bool { // or slow, which passes too
				if now := to.chunks.Load(); now != before {
					before, still = now, 0
				}
				still++
				return before > 0 && still > 10
			})
			if silent {
				testkit.Until(t, "connections are lost", func() bool {
					later.Advance(time.Second)
					return to.reconnects.Load() >= 3
				})
			}
			cancel()
			if err := <-sent; !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}
