package copier

import (
	"context"
	"fmt"
	"hash"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// fetch is the result of one fetch from a holder.
type fetch struct {
	kv.FetchSample
	wanted int // number of blocks
}

// fetchRun fetches the run of one holder's blocks that starts with block i, directly to the
// destinations. It ends with the context at the latest. Blocks that have arrived by then count as
// fetched.
func (r restore) fetchRun(ctx context.Context, i int) (f fetch) {
	f.wanted, f.BlockBytes = r.runLength(i), r.to.BlockBytes()
	from := r.lookup.found.holders[r.lookup.found.locations[i].tier-len(r.lookup.tiers)]
	hashes := r.lookup.hashes[i : i+f.wanted]
	chunks := kvstore.Chunks{Blocks: f.wanted, BlockBytes: f.BlockBytes, PartBytes: r.layers.PartBytes()}
	in := &sink{runtime: r.runtime, began: r.runtime.Now(), chunks: chunks.Count(),
		write: func(index uint32, sealed []byte) error { return r.putChunk(ctx, i, chunks, index, sealed) }}
	ticket, err := r.bulk.ExpectSealed(chunks.Bytes(), uint32(chunks.Count()), func(index uint32, _ int) hash.Hash64 {
		block, part := chunks.BlockPart(index)
		return chunks.SealHash(hashes[block].Namespaced(r.lookup.namespace), part)
	}, in.put)
	if err == nil {
		err = r.requestFetch(ctx, from, fmt.Sprintf("%s-%d", r.lookup.request, i), hashes, ticket)
		in.close()
		r.bulk.Drop(ticket)
	}
	in.measure(&f.FetchSample)
	for moves := r.layers.Moves()[i:]; f.Blocks < f.wanted && moves[f.Blocks].Done; {
		f.Blocks++
	}
	r.root.Send(r.lookup.remote, f.report(from))
	if f.Blocks < f.wanted {
		if err == nil {
			err = fmt.Errorf("received %d of %d blocks", f.Blocks, f.wanted)
		}
		r.layers.Fail(i+f.Blocks, fmt.Errorf("fetch from %s: %w", from.GetName(), err))
	}
	return f
}

// report returns the measurement of a fetch for the remote tier.
func (f fetch) report(from *messages.BlocksHeld) *messages.BlocksFetched {
	return &messages.BlocksFetched{
		From: from, Wanted: uint32(f.wanted), Received: uint32(f.Blocks), BlockBytes: uint64(f.BlockBytes),
		First: durationpb.New(f.First), Took: durationpb.New(f.All),
		Bytes: uint64(f.Bytes), FirstBytes: uint64(f.FirstBytes),
	}
}

// putChunk stores a chunk of the run that starts with block first. Once the chunks are no longer
// needed, it returns an error, which ends the transfer.
func (r restore) putChunk(ctx context.Context, first int, chunks kvstore.Chunks, index uint32,
	sealed []byte) error {
	i, part := chunks.BlockPart(index)
	b := chunks.Trim(part, sealed)
	switch {
	case b == nil:
		return fmt.Errorf("chunk %d has an unexpected size of %d bytes", index, len(sealed))
	case !r.layers.Wanted(first):
		return fmt.Errorf("block %d is no longer needed: %w", first, r.layers.Err())
	}
	return r.layers.PutPart(ctx, first+i, part, b)
}

// requestFetch requests a fetch and returns when the holder has sent its blocks.
func (r restore) requestFetch(ctx context.Context, from *messages.BlocksHeld, id string, hashes []kv.Hash,
	ticket *messages.BulkTicket) error {
	deadline, _ := ctx.Deadline()
	within := deadline.Sub(r.runtime.Now())
	answer, err := supervise.Request(r.root, r.lookup.remote, &messages.FetchBlocks{
		RequestId: id, From: from, Hashes: bytesOf(hashes), Space: r.lookup.namespace[:],
		BlockBytes: uint64(r.to.BlockBytes()),
		Ticket:     ticket, Within: durationpb.New(within), PartBytes: uint64(r.layers.PartBytes()),
	}, within).Result()
	if err != nil {
		r.root.Send(r.lookup.remote, &messages.ReleaseBlocks{RequestId: id})
		return err
	}
	result, ok := answer.(*messages.FetchBlocksResult)
	switch {
	case !ok:
		return fmt.Errorf("the remote tier has stopped")
	case result.GetRefused() != nil:
		return fmt.Errorf("refused: %s", result.GetRefused().GetDetail())
	}
	return nil
}
