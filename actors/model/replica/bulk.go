package replica

import (
	"context"
	"hash"

	"troupe/engine/kvstore"
	"troupe/messages"
)

// Blocks gives access to the KV blocks of the replica's lease while steps run; see engine.Blocks.
type Blocks interface {
	kvstore.LayeredBlocks
	Layout() string // blocks of equal layouts are interchangeable
	Close() error
}

// Bulk is the node's data plane. A transfer consists of chunks; chunk i of a migration is block i
// of the sequence.
type Bulk interface {
	// Expect opens a transfer for receiving. It calls put with each chunk that arrives, from any
	// goroutine, until Drop.
	Expect(chunkBytes int, chunks uint32, put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	// ExpectSealed is Expect for chunks that end with a seal: 8 bytes, big-endian, the sum of the
	// bytes before. Chunks with a wrong seal are not passed to put.
	ExpectSealed(chunkBytes int, chunks uint32, seal func(index uint32, bytes int) hash.Hash64,
		put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	Drop(*messages.BulkTicket)
	// Send returns when the receiver has stored all chunks or the context ends. It may be called
	// more than once for a ticket.
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		read func(index uint32, into []byte) (int, error)) error
}
