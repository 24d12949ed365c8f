package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"troupe/cluster/bulk/bulkbench"
	"troupe/core/route"
)

// routing measures routing decisions on different prompts of 128 blocks, for several numbers of
// replicas.
func routing() (section, error) {
	s := section{
		title: "Routing",
		how: "One decision for a prompt of 2,048 tokens in 128 blocks. Every replica holds the first 32 " +
			"blocks, and one replica holds all. Each decision is for another prompt. 10,000 blocks are " +
			"announced in total, or by each replica.",
	}
	for _, replicas := range []int{5, 25, 100} {
		for _, each := range []bool{false, true} {
			held, of := 10_000/replicas, "10,000 blocks in total"
			if each {
				held, of = 10_000, "10,000 blocks each"
			}
			routes, prompts := randomRoutes(replicas, held)
			took := testing.Benchmark(func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					routes.Route(route.Request{ID: "a request", Hashes: prompts[i%len(prompts)], Tokens: 2048})
				}
			}).NsPerOp()
			r := row{
				what:   fmt.Sprintf("%d replicas, %s", replicas, of),
				figure: fmt.Sprintf("%.1f µs, %.0f decisions per second", float64(took)/1000, 1e9/float64(took)),
			}
			if replicas == 100 {
				r.aim, r.met = "under 20 µs", yesNo(took < 20_000)
			}
			s.rows = append(s.rows, r)
		}
	}
	return s, nil
}

// randomRoutes returns a table of replicas that each hold a number of blocks, and the prompts of
// these blocks in random order.
func randomRoutes(replicas, held int) (*route.Routes, [][]uint64) {
	const shared, prompt = 32, 128
	rnd := rand.New(rand.NewPCG(1, 2))
	chain := func(n int) (hashes []uint64) {
		for range n {
			hashes = append(hashes, rnd.Uint64())
		}
		return hashes
	}
	routes, system := route.NewRoutes(), chain(shared)
	var prompts [][]uint64
	for i := range replicas {
		name := fmt.Sprint("model-", i)
		routes.Update(route.Replica{
			Name: name, State: route.Serving, Running: rnd.IntN(16), MaxSequences: 64, StepTokens: 512, BlockTokens: 16,
			KVBlocks: held, KVBlocksFree: held / 2,
		})
		routes.UpdateBlocks(name, nil, system)
		for n := shared; n < held; n += prompt - shared {
			own := chain(min(prompt-shared, held-n))
			routes.UpdateBlocks(name, nil, own)
			prompts = append(prompts, append(append([]uint64(nil), system...), own...))
		}
	}
	rnd.Shuffle(len(prompts), func(i, j int) { prompts[i], prompts[j] = prompts[j], prompts[i] })
	return routes, prompts
}

// dataPlane compares the data plane with a bare connection.
func dataPlane() (section, error) {
	s := section{
		title: "The bulk data plane",
		how: "Over loopback, compared to a bare TCP connection that carries the same bytes, alternating. " +
			"Both receivers copy each chunk into an arena. The data plane also checksums every byte " +
			"twice, batches small chunks in a buffer, acknowledges chunks, and can resume a transfer " +
			"after a lost connection.",
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, chunk := range []int{64 << 10, 1280 << 10} {
		r, err := bulkbench.Measure(ctx, bulkbench.Config{ChunkBytes: chunk, Chunks: (512 << 20) / chunk, Rounds: 7})
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, row{
			what: fmt.Sprintf("throughput over bare TCP, chunks of %d KiB", chunk>>10),
			figure: fmt.Sprintf("%.2f (%.2f GB/s against %.2f; %.2f s of CPU per GB against %.2f)",
				r.Ratio, r.Bulk/1e9, r.Bare/1e9, r.BulkCPU, r.BareCPU),
			aim: "0.90 or more", met: yesNo(r.Ratio >= 0.9),
		})
	}
	return s, nil
}
