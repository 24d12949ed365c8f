package bulk

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// TestFrames reads chunks of several lengths back, however the bytes come.
func TestFrames(t *testing.T) {
	var wire []byte
	lengths := []int{0, 1, headerBytes, 1000, cachedBytes + 1, 3 * cachedBytes}
	for i, n := range lengths {
		wire = appendFrame(wire, header{kind: data, stream: 7, index: uint32(i)}, bytes.Repeat([]byte{byte(i)}, n))
	}
	for name, from := range map[string]io.Reader{
		"whole": bytes.NewReader(wire), "byte by byte": iotest.OneByteReader(bytes.NewReader(wire)), "halves": iotest.HalfReader(bytes.NewReader(wire)),
	} {
		r := &reader{from: from, allowed: toReceiver}
		for i, n := range lengths {
			h, err := r.next()
			if err != nil || h.kind != data || h.stream != 7 || h.index != uint32(i) || int(h.length) != n {
				t.Fatalf("%s: chunk %d of %d bytes: %+v, %v", name, i, n, h, err)
			}
			b := make([]byte, n+headerBytes)
			if sum, err := r.fill(b, n); err != nil || sum != h.sum || !bytes.Equal(b[:n], bytes.Repeat([]byte{byte(i)}, n)) {
				t.Errorf("%s: chunk %d: sum %x, not %x; %v", name, i, sum, h.sum, err)
			}
		}
		if _, err := r.next(); err != io.EOF {
			t.Errorf("%s: %v at the end", name, err)
		}
	}
}

// TestDamagedHeader flips every bit of a header.
func TestDamagedHeader(t *testing.T) {
	b := make([]byte, headerBytes)
	header{kind: data, stream: 1, index: 2, length: 3, sum: 4}.put(b)
	for bit := range 8 * headerBytes {
		flipped := bytes.Clone(b)
		flipped[bit/8] ^= 1 << (bit % 8)
		if h, err := parse(flipped, toReceiver); err == nil {
			t.Errorf("bit %d: %+v was let through", bit, h)
		}
	}
}

// TestTurns gives places in the window in the order in which they were asked for, and to no stream more than its share.
func TestTurns(t *testing.T) {
	l := &link{window: 100 * frameCost, streams: map[uint32]*sending{}}
	ask := func(s *sending) bool {
		s.granted = 0
		l.waiting = append(l.waiting, s)
		l.grant()
		return s.granted > 0
	}
	single := func(bytes int) *sending { return &sending{chunkBytes: bytes, atOnce: 1, todo: []uint32{0}} }
	small, other, big := single(frameCost), single(frameCost), single(89*frameCost)
	for range 5 {
		if !ask(small) {
			t.Fatalf("%d bytes in flight, no place for more", small.inflight)
		}
	}
	if ask(small) {
		t.Errorf("%d bytes of %d were given to one", small.inflight, l.window)
	}
	if !ask(other) {
		t.Error("the first keeps another one waiting")
	}
	third := single(frameCost)
	if ask(big) || ask(third) {
		t.Error("one that fits went before one that waits longer")
	}
	l.release(other, 2*frameCost)
	if l.grant(); big.granted+third.granted+small.granted != 1 || big.granted != 1 {
		t.Errorf("the next should have its turn: %d %d %d", big.granted, third.granted, small.granted)
	}
	l.release(big, big.cost())
	if l.grant(); third.granted != 1 || small.granted != 0 || l.inflight != small.inflight+third.inflight {
		t.Errorf("%d %d, %d in flight", third.granted, small.granted, l.inflight)
	}
}

// FuzzReader reads frames as both sides do: it never takes more than a frame may have, nor a chunk whose sum is wrong.
func FuzzReader(f *testing.F) {
	var wire []byte
	for k, lengths := range toReceiver {
		wire = appendFrame(wire, header{kind: k, stream: 1, index: 2}, make([]byte, lengths.from))
	}
	for k, lengths := range toSender {
		wire = appendFrame(wire, header{kind: k, stream: 3}, make([]byte, lengths.from))
	}
	f.Add(wire, true)
	f.Add(wire, false)
	f.Add(append(hello(1), wire...), true)
	f.Fuzz(func(t *testing.T, wire []byte, receiver bool) {
		if len(wire) >= helloBytes {
			if window, err := parseHello(wire); err == nil && !bytes.Equal(wire[8:12], hello(window)[8:12]) {
				t.Errorf("a window of %d from %x", window, wire[:helloBytes])
			}
		}
		allowed := toSender
		if receiver {
			allowed = toReceiver
		}
		in := bytes.NewReader(wire)
		for r := (&reader{from: in, allowed: allowed}); ; {
			h, err := r.next()
			if err != nil {
				return
			}
			lengths, known := allowed[h.kind]
			if !known || h.length < lengths.from || h.length > lengths.to {
				t.Fatalf("%+v was let through", h)
			}
			if int(h.length) > in.Len()+r.ahead {
				return
			}
			if h.kind == data {
				b := make([]byte, int(h.length)+headerBytes)
				if sum, err := r.fill(b, int(h.length)); err == nil && sum != checksum(b[:h.length]) {
					t.Fatalf("sum %x of %x", sum, b[:h.length])
				}
			} else if b, err := r.checked(h, make([]byte, h.length)); err == nil && checksum(b) != h.sum {
				t.Fatalf("a damaged payload was let through")
			} else if err != nil {
				return
			}
		}
	})
}
