package route

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkRoute routes prompts of 128 blocks (2,048 tokens). Every replica holds the first 32
// blocks and one replica holds the rest. The replicas announce 10,000 blocks each, or 10,000
// together. Every decision is for another prompt, so the index is read from memory and not from a
// CPU cache.
func BenchmarkRoute(b *testing.B) {
	const announced, shared, prompt = 10_000, 32, 128
	for _, replicas := range []int{5, 25, 100} {
		for _, each := range []bool{false, true} {
			held, of := announced/replicas, "all"
			if each {
				held, of = announced, "each"
			}
			b.Run(fmt.Sprintf("replicas=%d/blocks=%s", replicas, of), func(b *testing.B) {
				routes, prompts := randomRoutes(replicas, held, shared, prompt)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					routes.Route(Request{ID: "a request", Hashes: prompts[i%len(prompts)], Tokens: 16 * prompt})
				}
			})
		}
	}
}

// randomRoutes returns a table of replicas that hold the given number of blocks each, and the
// prompts of these blocks in random order.
func randomRoutes(replicas, held, shared, prompt int) (*Routes, [][]uint64) {
	rnd := rand.New(rand.NewPCG(1, 2))
	chain := func(n int) (hashes []uint64) {
		for range n {
			hashes = append(hashes, rnd.Uint64())
		}
		return hashes
	}
	routes, system := NewRoutes(), chain(shared)
	var prompts [][]uint64
	for i := range replicas {
		r := serving(fmt.Sprintf("model-%d", i))
		r.Running, r.KVBlocks, r.KVBlocksFree = rnd.IntN(16), held, held/2
		routes.Update(r)
		routes.UpdateBlocks(r.Name, nil, system)
		for n := shared; n < held; n += prompt - shared {
			own := chain(min(prompt-shared, held-n))
			routes.UpdateBlocks(r.Name, nil, own)
			prompts = append(prompts, append(append([]uint64(nil), system...), own...))
		}
	}
	rnd.Shuffle(len(prompts), func(i, j int) { prompts[i], prompts[j] = prompts[j], prompts[i] })
	return routes, prompts
}

func BenchmarkWhy(b *testing.B) {
	routes, prompts := randomRoutes(100, 1000, 32, 128)
	d := routes.Route(Request{ID: "a request", Hashes: prompts[0], Tokens: 2048})
	for b.Loop() {
		_ = d.Why()
	}
}

// BenchmarkBlocks adds one block and removes it, with 100 replicas of 10,000 blocks each.
func BenchmarkBlocks(b *testing.B) {
	routes, _ := randomRoutes(100, 10_000, 32, 128)
	block := []uint64{1}
	for b.Loop() {
		routes.UpdateBlocks("model-50", nil, block)
		routes.UpdateBlocks("model-50", block, nil)
	}
}

// BenchmarkReset applies a snapshot of 10,000 blocks to one of 100 replicas, each of which holds
// 10,000 blocks.
func BenchmarkReset(b *testing.B) {
	routes, _ := randomRoutes(100, 10_000, 32, 128)
	held := routes.BlocksOf("model-50")
	for b.Loop() {
		routes.ResetBlocks("model-50", held)
	}
}
