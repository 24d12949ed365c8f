package bulk

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"testing/iotest"

	"github.com/zeebo/xxh3"
)

// TestFrames reads chunks of several lengths back, with reads of several sizes.
func TestFrames(t *testing.T) {
	var wire []byte
	lengths := []int{0, 1, headerBytes, 1000, readBytes + 1, 3 * readBytes}
	kinds := []kind{data, hashed, sealed}
	for i, n := range lengths {
		for _, k := range kinds {
			payload := sealedAs(k, 5, bytes.Repeat([]byte{byte(i)}, n))
			at := len(wire)
			wire = append(wire, make([]byte, headerBytes)...)
			header{k, 7, uint32(i), uint32(len(payload)), payloadSum(k, payload)}.put(wire[at:])
			wire = append(wire, payload...)
		}
	}
	for name, from := range map[string]io.Reader{
		"whole": bytes.NewReader(wire), "byte by byte": iotest.OneByteReader(bytes.NewReader(wire)),
		"halves": iotest.HalfReader(bytes.NewReader(wire)),
	} {
		r := &reader{from: from, allowed: toReceiver}
		for i := range len(lengths) * len(kinds) {
			n, k := lengths[i/len(kinds)], kinds[i%len(kinds)]
			payload := sealedAs(k, 5, bytes.Repeat([]byte{byte(i / len(kinds))}, n))
			h, err := r.next()
			if err != nil || h.kind != k || h.stream != 7 || h.index != uint32(i/len(kinds)) ||
				int(h.length) != len(payload) {
				t.Fatalf("%s: chunk %d of %d bytes: %+v, %v", name, i, n, h, err)
			}
			b := make([]byte, len(payload)+headerBytes)
			if intact, err := r.fill(b, h, xxh3.NewSeed(5)); err != nil || !intact ||
				!bytes.Equal(b[:len(payload)], payload) {
				t.Errorf("%s: chunk %d of kind %d: %t, %v", name, i, k, intact, err)
			}
		}
		if _, err := r.next(); err != io.EOF {
			t.Errorf("%s: %v at the end", name, err)
		}
	}
}

// sealedAs appends the seal to a payload if chunks of that kind have one.
func sealedAs(k kind, seed uint64, payload []byte) []byte {
	if k != sealed {
		return payload
	}
	return binary.BigEndian.AppendUint64(bytes.Clone(payload), xxh3.HashSeed(payload, seed))
}

// TestDamagedBits flips every bit of a chunk. A chunk sealed under another seed is damaged too.
func TestDamagedBits(t *testing.T) {
	for _, k := range []kind{data, hashed, sealed} {
		payload := sealedAs(k, 5, []byte("some forty bytes that are of one KV block"))
		h := header{kind: k, length: uint32(len(payload)), sum: payloadSum(k, payload)}
		read := func(payload []byte, seed uint64) bool {
			intact, err := (&reader{from: bytes.NewReader(payload)}).fill(
				make([]byte, len(payload)+headerBytes),
				h,
				xxh3.NewSeed(seed),
			)
			return err == nil && intact
		}
		if !read(payload, 5) || read(payload, 6) != (k != sealed) ||
			sealIntact(payload, xxh3.NewSeed(5)) != (k == sealed) {
			t.Errorf("kind %d: an intact chunk is rejected, or one under another seed is accepted", k)
		}
		for bit := range 8 * len(payload) {
			flipped := bytes.Clone(payload)
			if flipped[bit/8] ^= 1 << (bit % 8); read(flipped, 5) || sealIntact(flipped, xxh3.NewSeed(5)) {
				t.Errorf("kind %d, bit %d: damage not detected", k, bit)
			}
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
		if h, err := parseHeader(flipped, toReceiver); err == nil {
			t.Errorf("bit %d: %+v accepted", bit, h)
		}
	}
}

// TestWindowIsFair grants window space in request order, and to no stream more than its share.
func TestWindowIsFair(t *testing.T) {
	l := &link{window: 100 * frameCost, streams: map[uint32]*sending{}}
	ask := func(s *sending) bool {
		s.granted = 0
		l.waiting = append(l.waiting, s)
		l.grant()
		return s.granted > 0
	}
	single := func(bytes int) *sending { return &sending{chunkBytes: bytes, batchChunks: 1, todo: []uint32{0}} }
	small, other, big := single(frameCost), single(frameCost), single(89*frameCost)
	for range 5 {
		if !ask(small) {
			t.Fatalf("%d bytes in flight and no room for more", small.inflight)
		}
	}
	if ask(small) {
		t.Errorf("one stream got %d bytes of %d", small.inflight, l.window)
	}
	if !ask(other) {
		t.Error("the first stream blocks another")
	}
	third := single(frameCost)
	if ask(big) || ask(third) {
		t.Error("a chunk that fits overtook one that has waited longer")
	}
	l.release(other, 2*frameCost)
	if l.grant(); big.granted+third.granted+small.granted != 1 || big.granted != 1 {
		t.Errorf("want one grant, to the next stream: %d %d %d", big.granted, third.granted, small.granted)
	}
	l.release(big, big.cost())
	if l.grant(); third.granted != 1 || small.granted != 0 || l.inflight != small.inflight+third.inflight {
		t.Errorf("%d %d, %d in flight", third.granted, small.granted, l.inflight)
	}
}

// FuzzReader reads frames as sender and as receiver. It checks that the reader accepts no frame
// longer than its kind permits and no chunk with a wrong checksum.
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
	f.Add(append(hello(1, 0), wire...), true)
	f.Fuzz(func(t *testing.T, wire []byte, receiver bool) {
		if len(wire) >= helloBytes {
			if window, takes, err := parseHello(wire); err == nil &&
				!bytes.Equal(wire[6:12], hello(window, takes)[6:12]) {
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
				t.Fatalf("%+v accepted", h)
			}
			if int(h.length) > in.Len()+r.buffered {
				return
			}
			if h.kind == data || h.kind == hashed || h.kind == sealed {
				b := make([]byte, int(h.length)+headerBytes)
				intact, err := r.fill(b, h, xxh3.NewSeed(5))
				right := payloadSum(h.kind, b[:h.length]) == h.sum
				if h.kind == sealed {
					right = sealIntact(b[:h.length], xxh3.NewSeed(5))
				}
				if err == nil && intact != right {
					t.Fatalf("kind %d, intact: %t, of %x", h.kind, intact, b[:h.length])
				}
			} else if b, err := r.readSmall(h, make([]byte, h.length)); err == nil && checksum(b) != h.sum {
				t.Fatalf("a damaged payload was accepted")
			} else if err != nil {
				return
			}
		}
	})
}
