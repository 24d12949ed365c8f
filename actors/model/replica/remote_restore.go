package replica

import (
	"context"
	"fmt"
	"hash"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// remoteTier is what other holders are called together, beside the names of tiers.
const remoteTier = "remote"

// holder is who may have blocks that this node has not: another replica, or a tier of another node.
type holder struct {
	*messages.BlocksHeld
	path kv.Path // the way there
}

// fetch is one use of the way to a holder.
type fetch struct {
	kv.FetchSample
	wanted int // blocks
}

// elsewhere reports whether others may hold blocks.
func (l *lower) elsewhere() bool { return l.Remote != nil && l.Elsewhere() }

// search is one for these blocks, wherever they may be.
func (r *replica) search(ctx actor.Context, hashes []kv.Hash) search {
	s := search{request: r.tierRequest(), root: ctx.ActorSystem().Root, tiers: r.lower.Lower, hashes: hashes, space: r.lower.space, within: lookWithin}
	if r.lower.Always {
		s.within = tierWithin
	}
	if r.lower.elsewhere() {
		s.remote, s.model, s.replica = r.lower.Remote, r.Spec.GetModel(), r.Spec.GetName()
	}
	return s
}

// elsewhere asks the remote tier who holds the blocks that follow those that were found below.
func (s search) elsewhere(all *findings) {
	rest := s.hashes[len(all.places):]
	if s.remote == nil || len(rest) == 0 {
		return
	}
	inTiers := make([]uint64, len(rest))
	for i, h := range rest {
		inTiers[i] = h.Namespaced(s.space).Fingerprint64()
	}
	answer, err := s.root.RequestFuture(s.remote, &messages.FindBlocks{
		RequestId: s.request, Model: s.model, Replica: s.replica, Blocks: kv.Fingerprints(rest), InTiers: inTiers,
	}, s.within).Result()
	if err != nil {
		return
	}
	result, _ := answer.(*messages.FindBlocksResult)
	for _, run := range result.GetHeld() {
		for range min(int(run.GetBlocks()), len(s.hashes)-len(all.places)) {
			all.places = append(all.places, place{tier: len(s.tiers) + len(all.holders)})
		}
		all.holders = append(all.holders, holder{run, pathOf(run)})
	}
}

// pathOf is the way to a holder as the remote tier has measured it.
func pathOf(run *messages.BlocksHeld) kv.Path {
	p := run.GetPath()
	path := kv.Path{Name: run.GetName(), Queued: int64(p.GetQueuedBytes()), Latency: p.GetLatency().AsDuration(), ProbeBlocks: int(p.GetTryBlocks())}
	path.Rate.Add(p.GetBytesPerSecond(), time.Second)
	return path
}

// fetch has the remote tier bring the run of one holder's blocks that begins with block i, straight to where they go. It ends with the context, however
// far it came.
func (c climb) fetch(ctx context.Context, i int) (f fetch) {
	run := c.together(i)
	from := c.holders[c.places[i].tier-len(c.search.tiers)]
	f.wanted, f.BlockBytes = len(run), c.to.BlockBytes()
	hashes, began := c.search.hashes[i:i+len(run)], time.Now()
	chunks := kvstore.Chunks{Blocks: len(run), BlockBytes: f.BlockBytes, PartBytes: c.rise.PartBytes()}
	in := &inlet{got: make([]bool, chunks.Count()), write: func(index uint32, sealed []byte) error {
		return c.take(ctx, i, chunks, index, sealed)
	}}
	ticket, err := c.bulk.ExpectSealed(chunks.Bytes(), uint32(chunks.Count()), func(index uint32, _ int) hash.Hash64 {
		block, part := chunks.BlockPart(index)
		return chunks.SealHash(hashes[block].Namespaced(c.search.space), part)
	}, in.put)
	if err == nil {
		err = c.bring(ctx, from, fmt.Sprintf("%s-%d", c.search.request, i), hashes, ticket)
		in.shut()
		c.bulk.Drop(ticket)
	}
	in.fetched(&f.FetchSample, began)
	for moves := c.rise.Moves()[i:]; f.Blocks < f.wanted && moves[f.Blocks].Done; {
		f.Blocks++
	}
	c.search.root.Send(c.search.remote, &messages.BlocksFetched{
		From: from.BlocksHeld, Wanted: uint32(f.wanted), Came: uint32(f.Blocks), BlockBytes: uint64(f.BlockBytes), First: durationpb.New(f.First), Took: durationpb.New(f.All),
		Bytes: uint64(f.Bytes), FirstBytes: uint64(f.FirstBytes),
	})
	if f.Blocks < f.wanted {
		if err == nil {
			err = fmt.Errorf("it has %d of %d blocks", f.Blocks, f.wanted)
		}
		c.rise.Fail(i+f.Blocks, fmt.Errorf("fetch from %s: %w", from.GetName(), err))
	}
	return f
}

// take is given a chunk of the run that begins with block first. It ends the transfer once nothing of that is of use.
func (c climb) take(ctx context.Context, first int, chunks kvstore.Chunks, index uint32, sealed []byte) error {
	i, part := chunks.BlockPart(index)
	b := chunks.Trim(part, sealed)
	switch {
	case b == nil:
		return fmt.Errorf("chunk %d has %d bytes", index, len(sealed))
	case !c.rise.Wanted(first):
		return fmt.Errorf("block %d is not wanted any more: %w", first, c.rise.Err())
	}
	return c.rise.PutPart(ctx, first+i, part, b)
}

// bring returns when the holder has sent what it has of the blocks.
func (c climb) bring(ctx context.Context, from holder, id string, hashes []kv.Hash, ticket *messages.BulkTicket) error {
	deadline, _ := ctx.Deadline()
	within := time.Until(deadline)
	answer, err := c.search.root.RequestFuture(c.search.remote, &messages.FetchBlocks{
		RequestId: id, From: from.BlocksHeld, Hashes: bytesOf(hashes), Space: c.search.space[:], BlockBytes: uint64(c.to.BlockBytes()),
		Ticket: ticket, Within: durationpb.New(within), PartBytes: uint64(c.rise.PartBytes()),
	}, within).Result()
	if err != nil {
		c.search.root.Send(c.search.remote, &messages.ReleaseBlocks{RequestId: id})
		return err
	}
	result, ok := answer.(*messages.FetchBlocksResult)
	switch {
	case !ok:
		return fmt.Errorf("the remote tier is gone")
	case result.GetRefused() != nil:
		return fmt.Errorf("refused: %s", result.GetRefused().GetDetail())
	}
	return nil
}

// fetched measures what came in since then.
func (in *inlet) fetched(f *kv.FetchSample, began time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f.Bytes, f.FirstBytes = int64(in.bytes), int64(in.firstBytes)
	f.First, f.All = time.Since(began), time.Since(began)
	if f.Bytes > 0 {
		f.First, f.All = in.first.Sub(began), in.heard.Sub(began)
	}
}

// fetched counts what came from holders, and what did not.
func (l *lower) fetched(all []fetch) {
	for _, f := range all {
		l.totals.fetched += uint64(f.Blocks)
		l.totals.fetchFailed += uint64(f.wanted - f.Blocks)
	}
}
