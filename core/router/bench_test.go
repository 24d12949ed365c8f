package router

import (
	"fmt"
	"testing"

	"troupe/core/kv"
	"troupe/core/route"
)

// BenchmarkRoute routes prompts of 128 blocks (2,048 tokens) with 100 replicas on ten nodes. Each
// replica holds one of the prompts. With nodes=silent, half of the nodes are avoided. Most of the
// time is spent on hashing the prompt.
func BenchmarkRoute(b *testing.B) {
	for _, nodes := range []string{"heard", "silent"} {
		b.Run("nodes="+nodes, func(b *testing.B) {
			m, prompts := New("a", []Stored{{Name: "m"}}), make([][]uint32, 100)
			var members []Member
			for n := range 10 {
				members = append(members, Member{Name: fmt.Sprint(n), ID: "1", Leaving: nodes == "silent" && n%2 == 0})
			}
			m.Members(members, epoch)
			for i := range prompts {
				prompts[i] = make([]uint32, 2048)
				for j := range prompts[i] {
					prompts[i][j] = uint32(i*j + j)
				}
				m.Announced(Announcement{
					Node: fmt.Sprint(i % 10), Incarnation: 1, Sequence: uint64(i / 10), Snapshot: i < 10,
					Replicas: []Report{{
						Replica: route.Replica{
							Name: fmt.Sprint("m-", i), State: route.Serving, Running: i % 16, MaxSequences: 64,
							StepTokens: 512, BlockTokens: 16,
						},
						Model: "m", Committed: kv.Fingerprints(kv.Hashes(kv.Root("m", "", nil), prompts[i], 16)),
					}},
				}, epoch)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.Route(Request{ID: "a request", Model: "m", Prompt: prompts[i%len(prompts)]}, epoch)
			}
		})
	}
}
