package bulk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/zeebo/xxh3"
)

const (
	version     = 1
	helloBytes  = 16
	headerBytes = 24
	openBytes   = idBytes + tokenBytes
	ackBytes    = 8        // one entry of ACKED or DAMAGED
	maxAckBytes = 64 << 10 // per frame
	maxText     = 1 << 10  // of the text in REFUSED

	// readBytes is the size of one read. The data stays in a core's cache until it has been summed.
	readBytes = 64 << 10

	// frameCost is charged to the window per chunk beside its bytes, so that tiny chunks are
	// limited too.
	frameCost = 1 << 10
)

// kind is the type of a frame.
type kind uint8

const (
	open kind = iota + 1 // sent by the sender, until ping
	data
	closing
	ping
	opened // sent by the receiver, until pong
	acked
	damaged
	refused
	pong
	hashed // from the sender: data with an XXH3 sum, if the receiver supports it
	sealed // from the sender: data that ends with its seal, if the receiver asked for it
)

// flagSealed in the index field of OPENED asks for sealed chunks.
const flagSealed uint32 = 1

// featureHashed in a receiver's hello means that it supports HASHED frames.
const featureHashed uint16 = 1

// lengthRange is the allowed range of a payload's length, both ends included.
type lengthRange struct{ from, to uint32 }

// Frames that each side may send. Any other frame ends the connection before memory is allocated
// for it.
var (
	toReceiver = map[kind]lengthRange{
		open:    {openBytes, openBytes},
		data:    {0, MaxChunkBytes},
		hashed:  {0, MaxChunkBytes},
		sealed:  {SealBytes, MaxChunkBytes},
		closing: {},
		ping:    {},
	}
	toSender = map[kind]lengthRange{
		opened:  {8, 8},
		acked:   {ackBytes, maxAckBytes},
		damaged: {ackBytes, maxAckBytes},
		refused: {0, maxText},
		pong:    {},
	}
)

// Codes of REFUSED, in its index field.
const (
	refusedUnknown uint32 = iota + 1
	refusedSink
	refusedMisuse
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	magic      = [4]byte{'T', 'R', 'P', 'B'}
	errDamaged = errors.New("frame damaged in transit")
)

// checksum is the sum of headers, of small frames, and of chunks to receivers without HASHED.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// payloadSum returns the sum of a chunk in a frame of the given kind. XXH3 takes at most a fifth of
// the time of CRC-32C. The sum of a sealed chunk is its seal, computed earlier.
func payloadSum(of kind, b []byte) uint32 {
	switch of {
	case hashed:
		return uint32(xxh3.Hash(b))
	case sealed:
		return uint32(sealOf(b))
	}
	return checksum(b)
}

// header is the start of a frame.
type header struct {
	kind          kind
	stream, index uint32
	length, sum   uint32 // of the payload
}

// put writes the header to b, which is headerBytes long.
func (h header) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(h.kind)<<24)
	binary.BigEndian.PutUint32(b[4:], h.stream)
	binary.BigEndian.PutUint32(b[8:], h.index)
	binary.BigEndian.PutUint32(b[12:], h.length)
	binary.BigEndian.PutUint32(b[16:], h.sum)
	binary.BigEndian.PutUint32(b[20:], checksum(b[:20]))
}

// parseHeader reads a header and rejects kinds and lengths that are not allowed.
func parseHeader(b []byte, allowed map[kind]lengthRange) (header, error) {
	h := header{
		kind: kind(b[0]), stream: binary.BigEndian.Uint32(b[4:]), index: binary.BigEndian.Uint32(b[8:]),
		length: binary.BigEndian.Uint32(b[12:]), sum: binary.BigEndian.Uint32(b[16:]),
	}
	if checksum(b[:20]) != binary.BigEndian.Uint32(b[20:]) {
		return header{}, fmt.Errorf("header: %w", errDamaged)
	}
	lengths, ok := allowed[h.kind]
	if !ok || b[1]|b[2]|b[3] != 0 {
		return header{}, fmt.Errorf("frame of unknown kind %x", b[:4])
	}
	if h.length < lengths.from || h.length > lengths.to {
		return header{}, fmt.Errorf(
			"frame of kind %d has a payload of %d bytes, want %d to %d",
			h.kind,
			h.length,
			lengths.from,
			lengths.to,
		)
	}
	return h, nil
}

// appendFrame appends a small frame to b.
func appendFrame(b []byte, h header, payload []byte) []byte {
	h.length, h.sum = uint32(len(payload)), checksum(payload)
	at := len(b)
	b = append(b, make([]byte, headerBytes)...)
	h.put(b[at:])
	return append(b, payload...)
}

// reader reads frames from a connection.
type reader struct {
	from     io.Reader
	allowed  map[kind]lengthRange
	head     [headerBytes]byte
	buffered int // bytes of head that were read with the previous frame
}

// next reads the next header. Read or discard its payload before the next call.
func (r *reader) next() (header, error) {
	if _, err := io.ReadFull(r.from, r.head[r.buffered:]); err != nil {
		return header{}, err
	}
	r.buffered = 0
	return parseHeader(r.head[:], r.allowed)
}

// fill reads the payload of a chunk into b and reports whether it is intact. It sums the bytes
// while they are in the cache. b must have room for headerBytes more, which saves a system call if
// the next frame has arrived. seal is the hash of a sealed chunk.
func (r *reader) fill(b []byte, h header, seal hash.Hash64) (intact bool, err error) {
	got, n, sums := 0, int(h.length), newChunkSum(h, seal)
	for got < n {
		m, err := r.from.Read(b[got:min(got+readBytes, n+headerBytes)])
		sums.add(b[got:min(got+m, n)])
		if got += m; err != nil && got < n {
			return false, err
		}
	}
	if n > 0 {
		r.buffered = copy(r.head[:], b[n:got])
	}
	return sums.match(b[:n]), nil
}

// readSmall reads the payload of a small frame into b, which is long enough, and checks its sum.
func (r *reader) readSmall(h header, b []byte) ([]byte, error) {
	b = b[:h.length]
	if _, err := io.ReadFull(r.from, b); err != nil {
		return nil, err
	}
	if checksum(b) != h.sum {
		return nil, fmt.Errorf("payload of kind %d: %w", h.kind, errDamaged)
	}
	return b, nil
}

// discard skips a payload.
func (r *reader) discard(h header) error {
	_, err := io.CopyN(io.Discard, r.from, int64(h.length))
	return err
}

// hello returns the first message of each side: magic, version, supported features, window (the
// receiver's, in bytes), sum.
func hello(window int, features uint16) []byte {
	b := make([]byte, helloBytes)
	copy(b, magic[:])
	binary.BigEndian.PutUint16(b[4:], version)
	binary.BigEndian.PutUint16(b[6:], features)
	binary.BigEndian.PutUint32(b[8:], uint32(window))
	binary.BigEndian.PutUint32(b[12:], checksum(b[:12]))
	return b
}

// parseHello returns the peer's window and features, or an error if the peer is not compatible.
func parseHello(b []byte) (window int, takes uint16, err error) {
	switch {
	case [4]byte(b) != magic:
		return 0, 0, fmt.Errorf("peer does not speak the data plane's protocol: got %q", b[:4])
	case checksum(b[:12]) != binary.BigEndian.Uint32(b[12:]):
		return 0, 0, fmt.Errorf("hello: %w", errDamaged)
	case binary.BigEndian.Uint16(b[4:]) != version:
		return 0, 0, fmt.Errorf(
			"%w: peer speaks version %d of the data plane, this node version %d",
			ErrRefused,
			binary.BigEndian.Uint16(b[4:]),
			version,
		)
	}
	return int(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint16(b[6:]), nil
}
