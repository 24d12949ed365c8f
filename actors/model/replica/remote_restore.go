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

// remoteTier is the name of all remote holders in metrics, next to the names of tiers.
const remoteTier = "remote"

// remoteHolder has blocks that this node lacks: another replica, or a tier of another node.
type remoteHolder struct {
	*messages.BlocksHeld
	path kv.Path // to the holder
}

// remoteFetch is the result of one fetch from a holder.
type remoteFetch struct {
	kv.FetchSample
	wanted int // number of blocks
}

// hasRemote reports whether other replicas or nodes may hold blocks.
func (l *kvTiers) hasRemote() bool { return l.Remote != nil && l.RemoteAvailable() }

// newLookup returns a lookup of blocks in the tiers and at remote holders.
func (r *replica) newLookup(ctx actor.Context, hashes []kv.Hash) tierLookup {
	s := tierLookup{request: r.tierRequest(), root: ctx.ActorSystem().Root, tiers: r.kvTiers.Lower, hashes: hashes,
		namespace: r.kvTiers.namespace, timeout: lookupTimeout}
	if r.kvTiers.Restore == kv.RestoreAlways {
		s.timeout = tierTimeout
	}
	if r.kvTiers.hasRemote() {
		s.remote, s.model, s.replica = r.kvTiers.Remote, r.Spec.GetModel(), r.Spec.GetName()
	}
	return s
}

// findRemote asks the remote tier for holders of the blocks after those in the tiers.
func (s tierLookup) findRemote(all *lookupResult) {
	rest := s.hashes[len(all.locations):]
	if s.remote == nil || len(rest) == 0 {
		return
	}
	inTiers := make([]uint64, len(rest))
	for i, h := range rest {
		inTiers[i] = h.Namespaced(s.namespace).Fingerprint64()
	}
	answer, err := s.root.RequestFuture(s.remote, &messages.FindBlocks{
		RequestId: s.request, Model: s.model, Replica: s.replica, Blocks: kv.Fingerprints(rest), InTiers: inTiers,
	}, s.timeout).Result()
	if err != nil {
		return
	}
	result, _ := answer.(*messages.FindBlocksResult)
	for _, run := range result.GetHeld() {
		for range min(int(run.GetBlocks()), len(s.hashes)-len(all.locations)) {
			all.locations = append(all.locations, blockLocation{tier: len(s.tiers) + len(all.holders)})
		}
		all.holders = append(all.holders, remoteHolder{run, pathFrom(run)})
	}
}

// pathFrom returns the path to a holder as measured by the remote tier.
func pathFrom(run *messages.BlocksHeld) kv.Path {
	p := run.GetPath()
	path := kv.Path{Name: run.GetName(), Queued: int64(p.GetQueuedBytes()), Latency: p.GetLatency().AsDuration(),
		ProbeBlocks: int(p.GetTryBlocks())}
	path.Rate.Add(p.GetBytesPerSecond(), time.Second)
	return path
}

// fetchRun fetches the run of one holder's blocks that starts with block i, straight to its
// destination. It ends with the context at the latest; the blocks that have arrived by then count.
func (c restoreCopy) fetchRun(ctx context.Context, i int) (f remoteFetch) {
	run := c.sourceRun(i)
	from := c.holders[c.locations[i].tier-len(c.lookup.tiers)]
	f.wanted, f.BlockBytes = len(run), c.to.BlockBytes()
	hashes, began := c.lookup.hashes[i:i+len(run)], time.Now()
	chunks := kvstore.Chunks{Blocks: len(run), BlockBytes: f.BlockBytes, PartBytes: c.restore.PartBytes()}
	sink := &transferSink{received: make([]bool, chunks.Count()), write: func(index uint32, sealed []byte) error {
		return c.putChunk(ctx, i, chunks, index, sealed)
	}}
	ticket, err := c.bulk.ExpectSealed(chunks.Bytes(), uint32(chunks.Count()), func(index uint32, _ int) hash.Hash64 {
		block, part := chunks.BlockPart(index)
		return chunks.SealHash(hashes[block].Namespaced(c.lookup.namespace), part)
	}, sink.put)
	if err == nil {
		err = c.requestFetch(ctx, from, fmt.Sprintf("%s-%d", c.lookup.request, i), hashes, ticket)
		sink.close()
		c.bulk.Drop(ticket)
	}
	sink.sample(&f.FetchSample, began)
	for moves := c.restore.Moves()[i:]; f.Blocks < f.wanted && moves[f.Blocks].Done; {
		f.Blocks++
	}
	c.lookup.root.Send(c.lookup.remote, &messages.BlocksFetched{
		From: from.BlocksHeld, Wanted: uint32(f.wanted), Received: uint32(f.Blocks), BlockBytes: uint64(f.BlockBytes),
		First: durationpb.New(f.First), Took: durationpb.New(f.All),
		Bytes: uint64(f.Bytes), FirstBytes: uint64(f.FirstBytes),
	})
	if f.Blocks < f.wanted {
		if err == nil {
			err = fmt.Errorf("received %d of %d blocks", f.Blocks, f.wanted)
		}
		c.restore.Fail(i+f.Blocks, fmt.Errorf("fetch from %s: %w", from.GetName(), err))
	}
	return f
}

// putChunk stores a chunk of the run that starts with block first. It returns an error, which ends
// the transfer, once the chunks are no longer needed.
func (c restoreCopy) putChunk(ctx context.Context, first int, chunks kvstore.Chunks, index uint32,
	sealed []byte) error {
	i, part := chunks.BlockPart(index)
	b := chunks.Trim(part, sealed)
	switch {
	case b == nil:
		return fmt.Errorf("chunk %d has an unexpected size of %d bytes", index, len(sealed))
	case !c.restore.Wanted(first):
		return fmt.Errorf("block %d is no longer needed: %w", first, c.restore.Err())
	}
	return c.restore.PutPart(ctx, first+i, part, b)
}

// requestFetch returns when the holder has sent its blocks.
func (c restoreCopy) requestFetch(ctx context.Context, from remoteHolder, id string, hashes []kv.Hash,
	ticket *messages.BulkTicket) error {
	deadline, _ := ctx.Deadline()
	within := time.Until(deadline)
	answer, err := c.lookup.root.RequestFuture(c.lookup.remote, &messages.FetchBlocks{
		RequestId: id, From: from.BlocksHeld, Hashes: bytesOf(hashes), Space: c.lookup.namespace[:],
		BlockBytes: uint64(c.to.BlockBytes()),
		Ticket:     ticket, Within: durationpb.New(within), PartBytes: uint64(c.restore.PartBytes()),
	}, within).Result()
	if err != nil {
		c.lookup.root.Send(c.lookup.remote, &messages.ReleaseBlocks{RequestId: id})
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

// sample records the bytes received since began and when they arrived.
func (s *transferSink) sample(f *kv.FetchSample, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Bytes, f.FirstBytes = int64(s.bytes), int64(s.firstBytes)
	f.First, f.All = time.Since(began), time.Since(began)
	if f.Bytes > 0 {
		f.First, f.All = s.firstAt.Sub(began), s.lastAt.Sub(began)
	}
}

// countFetches counts the blocks that holders sent or failed to send.
func (l *kvTiers) countFetches(all []remoteFetch) {
	for _, f := range all {
		l.totals.fetched += uint64(f.Blocks)
		l.totals.fetchFailed += uint64(f.wanted - f.Blocks)
	}
}
