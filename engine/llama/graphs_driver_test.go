//go:build linux

package llama_test

import (
	"fmt"
	"testing"

	"troupe/cuda/driver"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit/fakecuda"
	"troupe/testkit/kernelhost"
)

// TestGraphsOnTheDriver captures and replays through the calls of CUDA, on a fake driver that runs the
// CUDA sources. A driver prefers graphs. It is slow, so it computes only a few tokens.
func TestGraphsOnTheDriver(t *testing.T) {
	fake := fakecuda.Open(t)
	fake.Do("kernels " + kernelhost.Build(t))
	library, err := driver.Load(fake.Path)
	if err != nil {
		t.Fatal(err)
	}
	limits := engine.Limits{StepTokens: 16, MaxSequences: 3}
	var want []*generation
	for _, mode := range []llama.GraphMode{llama.NoGraphs, llama.FastGraphs} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			device, err := library.Open(0, driver.Embedded{})
			if err != nil {
				t.Fatal(err)
			}
			r := newReplicaWithin(t, device, llama.Loader{Graphs: mode}, kvBlocks, limits)
			before := fake.Live()
			graphs, err := engine.CaptureGraphs(t.Context(), r.engine)
			if err != nil || (graphs.Count == 3) != (mode == llama.FastGraphs) {
				t.Fatalf("captured %+v: %v", graphs, err)
			}
			if mode == llama.FastGraphs && fake.Live() <= before {
				t.Error("the driver has no graphs")
			}
			var got []*generation
			for seed := range uint64(3) {
				g := decoding(seed, int32(4*seed), int32(4*seed+1))
				g.prompt, g.want = g.prompt[:3], 3
				got = append(got, g)
			}
			calls := fake.Calls("cuGraphLaunch")
			for !got[0].done() {
				stepAll(t, r.engine, limits.StepTokens, got...)
			}
			if n := fake.Calls("cuGraphLaunch") - calls; (n == 2) != (mode == llama.FastGraphs) {
				t.Errorf("%d graphs launched", n)
			}
			for i, g := range want {
				sameTokens(t, "on the driver", got[i].tokens, g.tokens)
			}
			want = got
		})
	}
}
