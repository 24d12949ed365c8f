package kv

import (
	"strings"
	"testing"
	"time"
)

// TestLink: what is measured on a way decides how much is fetched over it; a way that brings nothing is not taken again until that is forgotten.
func TestLink(t *testing.T) {
	now := time.Unix(1e9, 0)
	const blockBytes = 1 << 20
	ask := func(l *Link) RestoreChoice {
		return RestoreQuestion{
			Sources: []int{0, 0, 0, 0, 0, 0, 0, 0}, Paths: []Path{l.Path("dram on b", now)}, BlockBytes: blockBytes, BlockTokens: 16, Tokens: 130,
			Prefill: measured(1000, time.Second), // a block takes 16 ms
		}.Choose()
	}
	fetch := func(l *Link, blocks int, first, all time.Duration) {
		l.Add(Fetch{Blocks: blocks, BlockBytes: blockBytes, Bytes: int64(blocks) * blockBytes, FirstBytes: int64(min(blocks, 1)) * blockBytes, First: first, All: all}, now)
	}
	var fast, slow, far, dead, one Link
	if got := ask(&fast); got.Blocks != linkTry || !strings.Contains(got.Why, "dram on b") {
		t.Errorf("a way that was never measured: %+v", got)
	}
	fetch(&fast, 8, 2*time.Millisecond, 9*time.Millisecond)
	fetch(&slow, 8, 2*time.Millisecond, 142*time.Millisecond)
	fetch(&far, 8, 200*time.Millisecond, 201*time.Millisecond)
	fetch(&dead, 0, 130*time.Millisecond, 130*time.Millisecond)
	fetch(&one, 1, 3*time.Millisecond, 3*time.Millisecond)
	for name, tc := range map[string]struct {
		link   *Link
		blocks int
	}{"fast": {&fast, 8}, "slow": {&slow, 0}, "far": {&far, 0}, "dead": {&dead, 0}, "one": {&one, 8}} {
		if got := ask(tc.link); got.Blocks != tc.blocks || got.Why == "" || got.Takes > got.Recompute {
			t.Errorf("%s: %+v, want %d blocks", name, got, tc.blocks)
		}
	}
	if got := ask(&fast).Takes; got != 12*time.Millisecond { // 2 ms to the first byte, 8 at 1 a ms, 2 tokens
		t.Errorf("a fetch of all takes %v", got)
	}
	if now = now.Add(linkHolds + time.Second); ask(&dead).Blocks != linkTry || dead.Known(now) {
		t.Error("a way that brought nothing is never tried again")
	}
}

// TestTriesAPathWithAFew: of blocks on several ways only those on the first unmeasured one are tried.
func TestTriesAPathWithAFew(t *testing.T) {
	q := RestoreQuestion{Paths: []Path{{Rate: measured(1e9, time.Second)}, {Try: 3}, {}}, BlockBytes: 1000, BlockTokens: 16, Tokens: 200, Prefill: measured(1000, time.Second)}
	for _, tc := range []struct {
		sources []int
		want    int
	}{{[]int{0, 0, 1, 1, 1, 1}, 5}, {[]int{0, 1, 1, 0}, 3}, {[]int{0, 2, 2}, 2}, {[]int{1}, 1}} {
		if q.Sources = tc.sources; q.Choose().Blocks != tc.want {
			t.Errorf("%v: %+v, want %d", tc.sources, q.Choose(), tc.want)
		}
	}
}
