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
	maxAckBytes = 64 << 10 // of one frame
	maxText     = 1 << 10  // of REFUSED

	// cachedBytes is how much is read at once: what stays in a core's cache until it has been summed.
	cachedBytes = 64 << 10

	// frameCost is what a chunk takes of the window beside its bytes, so that tiny ones are bounded too.
	frameCost = 1 << 10
)

// kind says what a frame is.
type kind uint8

const (
	open kind = iota + 1 // from the sender
	data
	closing
	ping
	opened // from the receiver
	acked
	damaged
	refused
	pong
	hashed // from the sender: data whose sum is by XXH3, to a receiver that takes it
	sealed // likewise: data that ends with its seal, which is its sum, to a receiver that asked for it
)

// askSealed is said in the index field of OPENED.
const askSealed uint32 = 1

// takesHashed is said in a receiver's hello.
const takesHashed uint16 = 1

// span is how long a payload may be.
type span struct{ from, to uint32 }

// What each side may send. Anything else ends the connection before memory is taken for it.
var (
	toReceiver = map[kind]span{open: {openBytes, openBytes}, data: {0, MaxChunkBytes}, hashed: {0, MaxChunkBytes}, sealed: {SealBytes, MaxChunkBytes}, closing: {}, ping: {}}
	toSender   = map[kind]span{opened: {8, 8}, acked: {ackBytes, maxAckBytes}, damaged: {ackBytes, maxAckBytes}, refused: {0, maxText}, pong: {}}
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
	errDamaged = errors.New("a frame was damaged on the way")
)

// checksum is of small frames and headers, and of chunks to receivers that take no other.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// payloadSum is the sum of a chunk in a frame of that kind. XXH3 takes a fifth of the time, or less. That of a sealed one was taken before.
func payloadSum(of kind, b []byte) uint32 {
	switch of {
	case hashed:
		return uint32(xxh3.Hash(b))
	case sealed:
		return uint32(sealOf(b))
	}
	return checksum(b)
}

// header is what a frame begins with.
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

// parse reads a header, and refuses kinds and lengths that are not allowed.
func parse(b []byte, allowed map[kind]span) (header, error) {
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
		return header{}, fmt.Errorf("frame of kind %d with a payload of %d bytes, not %d to %d", h.kind, h.length, lengths.from, lengths.to)
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

// reader takes frames from a connection.
type reader struct {
	from    io.Reader
	allowed map[kind]span
	head    [headerBytes]byte
	ahead   int // bytes of head that came with the frame before
}

// next reads the next header. Its payload must be taken before the next one.
func (r *reader) next() (header, error) {
	if _, err := io.ReadFull(r.from, r.head[r.ahead:]); err != nil {
		return header{}, err
	}
	r.ahead = 0
	return parse(r.head[:], r.allowed)
}

// fill reads the payload of a chunk into b, and reports whether it is what was sent: it is summed while it is in the cache. b has room for
// headerBytes more, which save a system call where the next frame has come already. The sum is that of a sealed one.
func (r *reader) fill(b []byte, h header, seal hash.Hash64) (intact bool, err error) {
	got, n, sums := 0, int(h.length), newSums(h, seal)
	for got < n {
		m, err := r.from.Read(b[got:min(got+cachedBytes, n+headerBytes)])
		sums.add(b[got:min(got+m, n)])
		if got += m; err != nil && got < n {
			return false, err
		}
	}
	if n > 0 {
		r.ahead = copy(r.head[:], b[n:got])
	}
	return sums.match(b[:n]), nil
}

// checked reads a payload of a small frame into b, which is at least as long, and checks its sum.
func (r *reader) checked(h header, b []byte) ([]byte, error) {
	b = b[:h.length]
	if _, err := io.ReadFull(r.from, b); err != nil {
		return nil, err
	}
	if checksum(b) != h.sum {
		return nil, fmt.Errorf("payload of kind %d: %w", h.kind, errDamaged)
	}
	return b, nil
}

// discard passes over a payload.
func (r *reader) discard(h header) error {
	_, err := io.CopyN(io.Discard, r.from, int64(h.length))
	return err
}

// hello is the first thing that each side says: magic, version, what it takes beyond that, window (the receiver's, in bytes), sum.
func hello(window int, takes uint16) []byte {
	b := make([]byte, helloBytes)
	copy(b, magic[:])
	binary.BigEndian.PutUint16(b[4:], version)
	binary.BigEndian.PutUint16(b[6:], takes)
	binary.BigEndian.PutUint32(b[8:], uint32(window))
	binary.BigEndian.PutUint32(b[12:], checksum(b[:12]))
	return b
}

// parseHello returns the peer's window and what it takes, or why it can not be talked to.
func parseHello(b []byte) (window int, takes uint16, err error) {
	switch {
	case [4]byte(b) != magic:
		return 0, 0, fmt.Errorf("it does not speak the data plane's protocol, it says %q", b[:4])
	case checksum(b[:12]) != binary.BigEndian.Uint32(b[12:]):
		return 0, 0, fmt.Errorf("hello: %w", errDamaged)
	case binary.BigEndian.Uint16(b[4:]) != version:
		return 0, 0, fmt.Errorf("%w: it speaks version %d of the data plane, this node version %d", ErrRefused, binary.BigEndian.Uint16(b[4:]), version)
	}
	return int(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint16(b[6:]), nil
}
