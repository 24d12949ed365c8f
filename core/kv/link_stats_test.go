package kv

import (
	"strings"
	"testing"
	"time"
)

// TestLinkStatsDecideHowMuchIsFetched checks that the measurements of a path decide how many blocks
// are fetched over it. A path that brought nothing is avoided until its measurement expires.
func TestLinkStatsDecideHowMuchIsFetched(t *testing.T) {
	now := time.Unix(1e9, 0)
	const blockBytes = 1 << 20
	ask := func(l *LinkStats) RestoreDecision {
		return RestoreCost{
			Sources: []int{0, 0, 0, 0, 0, 0, 0, 0}, Paths: []Path{l.Path("dram on b", now)}, BlockBytes: blockBytes,
			BlockTokens: 16, Tokens: 130,
			Prefill: measured(1000, time.Second), // 16 ms per block
		}.Decide()
	}
	fetch := func(l *LinkStats, blocks int, first, all time.Duration) {
		l.Add(FetchSample{Blocks: blocks, BlockBytes: blockBytes, Bytes: int64(blocks) * blockBytes,
			FirstBytes: int64(min(blocks, 1)) * blockBytes, First: first, All: all}, now)
	}
	var fast, slow, far, dead, one LinkStats
	if got := ask(&fast); got.Blocks != linkProbeBlocks || !strings.Contains(got.Why, "dram on b") {
		t.Errorf("unmeasured path: %+v", got)
	}
	fetch(&fast, 8, 2*time.Millisecond, 9*time.Millisecond)
	fetch(&slow, 8, 2*time.Millisecond, 142*time.Millisecond)
	fetch(&far, 8, 200*time.Millisecond, 201*time.Millisecond)
	fetch(&dead, 0, 130*time.Millisecond, 130*time.Millisecond)
	fetch(&one, 1, 3*time.Millisecond, 3*time.Millisecond)
	for name, tc := range map[string]struct {
		link   *LinkStats
		blocks int
	}{"fast": {&fast, 8}, "slow": {&slow, 0}, "far": {&far, 0}, "dead": {&dead, 0}, "one": {&one, 8}} {
		if got := ask(tc.link); got.Blocks != tc.blocks || got.Why == "" || got.Duration > got.Recompute {
			t.Errorf("%s: %+v, want %d blocks", name, got, tc.blocks)
		}
	}
	if got := ask(&fast).Duration; got != 12*time.Millisecond { // 2 ms latency, 8 blocks at 1 ms each, 2 tokens
		t.Errorf("fetching all blocks takes %v", got)
	}
	if now = now.Add(linkTTL + time.Second); ask(&dead).Blocks != linkProbeBlocks || dead.Fresh(now) {
		t.Error("a path that brought nothing is not probed after its measurement expired")
	}
}

// TestUnmeasuredPathIsProbedWithFewBlocks checks that on several paths, only blocks of the first
// unmeasured path are probed.
func TestUnmeasuredPathIsProbedWithFewBlocks(t *testing.T) {
	q := RestoreCost{Paths: []Path{{Rate: measured(1e9, time.Second)}, {ProbeBlocks: 3}, {}}, BlockBytes: 1000,
		BlockTokens: 16, Tokens: 200, Prefill: measured(1000, time.Second)}
	for _, tc := range []struct {
		sources []int
		want    int
	}{{[]int{0, 0, 1, 1, 1, 1}, 5}, {[]int{0, 1, 1, 0}, 3}, {[]int{0, 2, 2}, 2}, {[]int{1}, 1}} {
		if q.Sources = tc.sources; q.Decide().Blocks != tc.want {
			t.Errorf("%v: %+v, want %d", tc.sources, q.Decide(), tc.want)
		}
	}
}
