package main

import (
	"fmt"
	"hash"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/kvblock"
	"troupe/cluster/bulk"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// exporter simulates another node: a tier that exports the content of a store, and a data plane on
// each side.
type exporter struct {
	system   *actor.ActorSystem
	tier     *actor.PID
	from, to *bulk.Plane
	leases   int
}

// exporterSpace is the namespace of the blocks' hashes in the store.
var exporterSpace = kv.Root("bench", "", nil)

func newExporter(store kvstore.Store) (_ *exporter, err error) {
	l := &exporter{
		system: actor.NewActorSystem(
			actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
		),
	}
	if l.from, err = bulk.Listen(bulk.Config{}); err != nil {
		return nil, err
	}
	if l.to, err = bulk.Listen(bulk.Config{}); err != nil {
		return nil, err
	}
	l.tier = l.system.Root.Spawn(
		kvblock.TierProps(kvblock.TierConfig{Name: "dram", Store: store, DataPlane: l.from, Log: zerolog.Nop()}),
	)
	return l, nil
}

// fetch requests blocks and passes each received part to put.
func (l *exporter) fetch(hashes []kv.Hash, chunks kvstore.Chunks, put func(i, part int, b []byte) error) error {
	came := 0
	seal := func(index uint32, _ int) hash.Hash64 {
		i, part := chunks.BlockPart(index)
		return chunks.SealHash(hashes[i].Namespaced(exporterSpace), part)
	}
	ticket, err := l.to.ExpectSealed(
		chunks.Bytes(),
		uint32(chunks.Count()),
		seal,
		func(index uint32, sealed []byte) error {
			i, part := chunks.BlockPart(index)
			b := chunks.Trim(part, sealed)
			came += len(b)
			return put(i, part, b)
		},
	)
	if err != nil {
		return err
	}
	l.leases++
	lease := &messages.LeaseBlocks{
		RequestId:  fmt.Sprint(l.leases),
		Space:      exporterSpace[:],
		BlockBytes: uint64(chunks.BlockBytes),
		PartBytes:  uint64(chunks.PartBytes),
		Ticket:     ticket,
		Lease:      durationpb.New(10 * time.Second),
	}
	for i := range hashes {
		lease.Hashes = append(lease.Hashes, hashes[i][:])
	}
	answer, err := l.system.Root.RequestFuture(l.tier, lease, 10*time.Second).Result()
	l.to.Drop(ticket)
	if err != nil {
		return err
	}
	if came != chunks.Blocks*chunks.BlockBytes {
		return fmt.Errorf("received %d bytes: %v", came, answer)
	}
	return nil
}

func (l *exporter) close() {
	l.system.Shutdown()
	l.from.Close()
	l.to.Close()
}
