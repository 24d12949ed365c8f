package main

import (
	"context"
	"fmt"
	"time"

	"troupe/cluster/bulk/bulkbench"
	"troupe/core/kv"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine/kvstore"
)

const (
	remoteBlock  = 1280 << 10 // a KV block of an 8B model: 16 tokens at 80 KiB
	remoteBlocks = 64
	remotePart   = 7 * 40 << 10 // 7 of its 32 layers, as requested by a replica that starts with the first ones
	remoteRounds = 31
)

// remoteTier compares fetching blocks from another node's tier with a bare connection.
func remoteTier() (section, error) {
	s := section{
		title: "The remote tier",
		how: fmt.Sprintf("Over loopback, %d blocks of %d KiB in the DRAM tier of one node are leased, sent and copied "+
			"into an arena, compared to a bare TCP connection that carries the same bytes, alternating. A "+
			"fetch verifies each block when it leaves the tier and when it arrives; the same few cores do "+
			"all of that and the copies of the bare connection.",
			remoteBlocks, remoteBlock>>10),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	b, err := newRemote()
	if err != nil {
		return s, err
	}
	defer b.close()
	for _, way := range []struct {
		name  string
		parts int
	}{{"whole blocks", 0}, {"first layers first", remotePart}} {
		b.chunks = kvstore.Chunks{Blocks: remoteBlocks, BlockBytes: remoteBlock, PartBytes: way.parts}
		r, err := bulkbench.Measure(
			ctx, bulkbench.Config{ChunkBytes: remoteBlock, Chunks: remoteBlocks, Rounds: remoteRounds, Copy: b.fetch},
		)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, row{
			what: "fetch from another node's DRAM over bare TCP, " + way.name,
			figure: fmt.Sprintf("%.2f (%.2f GB/s against %.2f; %.2f s of CPU per GB against %.2f)",
				r.Ratio, r.Bulk/1e9, r.Bare/1e9, r.BulkCPU, r.BareCPU),
			aim: "0.85 or more", met: yesNo(r.Ratio >= 0.85),
		})
	}
	return s, nil
}

// remote is a tier with blocks, and the node that fetches them.
type remote struct {
	*exporter
	device cuda.Device
	store  *kvstore.Arena
	hashes []kv.Hash
	arena  []byte
	chunks kvstore.Chunks
}

func newRemote() (_ *remote, err error) {
	b := &remote{arena: make([]byte, remoteBlocks*remoteBlock)}
	if b.device, err = host.Open(host.Config{MemoryBytes: 1 << 20}); err != nil {
		return nil, err
	}
	memory, err := b.device.AllocHost(remoteBlocks * remoteBlock)
	if err != nil {
		return nil, err
	}
	b.store = kvstore.NewArena(memory, remoteBlocks*remoteBlock)
	block := make([]byte, remoteBlock)
	for i := range remoteBlocks {
		for at := range block {
			block[at] = byte(i + at*at>>7)
		}
		h := kv.Root("bench", fmt.Sprint(i), nil)
		b.hashes = append(b.hashes, h)
		if err := b.store.Write(context.Background(), int32(i), h.Namespaced(exporterSpace), block); err != nil {
			return nil, err
		}
	}
	b.exporter, err = newExporter(b.store)
	return b, err
}

// fetch fetches the blocks like a replica, but without the copy to its device.
func (b *remote) fetch(context.Context) error {
	return b.exporter.fetch(b.hashes, b.chunks, func(i, part int, bytes []byte) error {
		from, _ := b.chunks.PartRange(part)
		copy(b.arena[i*remoteBlock+from:], bytes)
		return nil
	})
}

func (b *remote) close() {
	b.exporter.close()
	_, _ = b.store.Close(), b.device.Close()
}
