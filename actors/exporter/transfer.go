package exporter

import (
	"context"
	"errors"

	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// DataPlane is the node's data plane. Send returns when the receiver has stored all chunks or the
// context has ended.
type DataPlane interface {
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		read func(index uint32, into []byte) (int, error)) error
}

// InPlacePlane is a DataPlane that can send chunks directly from the memory that holds them. view
// calls use with the parts of a chunk, which must not change until use returns.
type InPlacePlane interface {
	DataPlane
	SendInPlace(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		view func(index uint32, use func(parts ...[]byte) error) error) error
}

// Source is the memory of a holder's blocks.
type Source interface {
	// Open returns a reader of locked blocks. Their hashes are namespaced.
	Open(blocks []int32, hashes []kv.Hash, chunks kvstore.Chunks) Reader
}

// Reader reads the chunks of one transfer, each with its seal. If the checksum of a block is wrong,
// the error wraps kvstore.ErrDamaged.
type Reader interface {
	Read(ctx context.Context, index uint32, into []byte) (int, error)
}

// Viewer is a Reader whose blocks may be sent directly from the memory that holds them.
type Viewer interface {
	Reader
	InPlace() bool
	View(ctx context.Context, index uint32, use func(parts ...[]byte) error) error
}

// transfer sends blocks to one ticket.
type transfer struct {
	plane   DataPlane
	ticket  *messages.BulkTicket
	chunks  kvstore.Chunks
	hashes  []kv.Hash // namespaced hashes of the blocks that are sent
	reader  Reader
	damaged []kv.Hash
}

// newTransfer returns the transfer of the leading blocks of a valid request. blocks has their
// numbers at the holder.
func newTransfer(plane DataPlane, source Source, msg *messages.LeaseBlocks, blocks []int32) *transfer {
	chunks, _ := chunksOf(msg)
	t := &transfer{plane: plane, ticket: msg.GetTicket(), chunks: chunks}
	for _, raw := range msg.GetHashes()[:len(blocks)] {
		t.hashes = append(t.hashes, kv.Hash(raw).Namespaced(kv.Hash(msg.GetSpace())))
	}
	t.reader = source.Open(blocks, t.hashes, chunks)
	return t
}

// run sends the blocks. It returns the block that was found damaged, if any.
func (t *transfer) run(ctx context.Context) (damaged []kv.Hash, err error) {
	indices := t.chunks.SendOrder(len(t.hashes))
	plane, direct := t.plane.(InPlacePlane)
	if v, ok := t.reader.(Viewer); ok && direct && v.InPlace() {
		err = plane.SendInPlace(ctx, t.ticket, indices, func(index uint32, use func(parts ...[]byte) error) error {
			return t.noteDamage(index, v.View(ctx, index, use))
		})
		return t.damaged, err
	}
	err = t.plane.Send(ctx, t.ticket, indices, func(index uint32, into []byte) (int, error) {
		n, err := t.reader.Read(ctx, index, into)
		return n, t.noteDamage(index, err)
	})
	return t.damaged, err
}

// noteDamage records the block of a chunk whose checksum is wrong.
func (t *transfer) noteDamage(index uint32, err error) error {
	if errors.Is(err, kvstore.ErrDamaged) {
		i, _ := t.chunks.BlockPart(index)
		t.damaged = []kv.Hash{t.hashes[i]}
	}
	return err
}
