package hbm

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestYieldLowestPriorityFirst(t *testing.T) {
	pools := []Pool{
		{Owner: "chat", Priority: 3, LastUsed: 90, Pages: 50, Min: 10},
		{Owner: "batch-old", Priority: 1, LastUsed: 10, Pages: 8, Min: 4},
		{Owner: "batch-new", Priority: 1, LastUsed: 80, Pages: 30, Min: 4},
		{Owner: "full", Priority: 1, LastUsed: 0, Pages: 5, Min: 9},
		{Owner: "chat", Adapters: true, Priority: 3, LastUsed: 99, Pages: 6, Min: 4},
	}
	for _, tc := range []struct {
		need, free int
		want       string
		why        string // substring
	}{
		{5, 9, "[]", "5 pages needed, 9 free"},
		{12, 9, "[{batch-old 3}]", "batch-old yields 3 of 8 pages"},
		{15, 9, "[{batch-old 4} {batch-new 2}]", "batch-old yields 4 of 8 pages; batch-new yields 2 of 30"},
		{41, 9, "[{batch-old 4} {batch-new 26} {chat 2 for adapters}]", "chat yields 2 of 6 pages for adapters"},
		{52, 9, "[{batch-old 4} {batch-new 26} {chat 2 for adapters} {chat 11}]", "chat yields 11 of 50"},
		{81, 9, "[{batch-old 4} {batch-new 26} {chat 2 for adapters} {chat 40}]", ""},
		{82, 9, "[]", "82 pages needed, 9 free; 1 missing after all pools yield"},
	} {
		yields, why, ok := Yield(tc.need, tc.free, pools)
		if texts(yields) != tc.want || !strings.Contains(why, tc.why) || ok != (tc.need < 82) {
			t.Errorf("%d of %d: %v, %q, %v", tc.need, tc.free, yields, why, ok)
		}
	}
}

func texts(changes []Change) string {
	all := []string{}
	for _, c := range changes {
		purpose := map[bool]string{true: " for adapters"}[c.Adapters]
		all = append(all, fmt.Sprintf("{%s %d%s}", c.Owner, c.Pages, purpose))
	}
	return fmt.Sprint(all)
}

func TestGrowBelowShareFirst(t *testing.T) {
	pools := []Pool{
		{Owner: "batch", Priority: 1, LastUsed: 99, Wanted: 50},
		{Owner: "chat", Priority: 3, LastUsed: 1, Wanted: 20},
		{Owner: "code", Priority: 3, LastUsed: 9, Wanted: 5}, {Owner: "idle", Priority: 3},
		{Owner: "small", Priority: 1, Pages: 4, Share: 10},
		{Owner: "rich", Priority: 3, Pages: 30, Share: 10},
	}
	for free, want := range map[int]string{
		0: "[]", 5: "[{small 5}]", 12: "[{code 5} {chat 1} {small 6}]",
		200: "[{code 5} {chat 20} {batch 50} {small 6}]",
	} {
		if got := texts(Grow(free, pools)); got != want {
			t.Errorf("%d free: %s", free, got)
		}
	}
}

// TestYieldAndGrowInvariants applies the decisions to a ledger. They are always possible, no pool
// goes below its Min, and a lower priority keeps more than its Min only if enough was freed.
func TestYieldAndGrowInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(64 * PageBytes)
		var pools []Pool
		for i := range rapid.IntRange(0, 4).Draw(t, "pools") {
			pages := rapid.IntRange(0, 16).Draw(t, "pages")
			p := Pool{
				Owner: string(rune('a' + i)), Priority: rapid.IntRange(1, 3).Draw(t, "priority"),
				LastUsed: rapid.Int64Range(0, 9).Draw(t, "used"),
				Pages:    pages, Min: rapid.IntRange(0, 16).Draw(t, "min"),
				Wanted: rapid.IntRange(0, 9).Draw(t, "wanted"),
			}
			if _, short := l.Resize(p.Owner, "kv", int64(pages)*PageBytes); short != nil {
				t.Fatal(short)
			}
			pools = append(pools, p)
		}
		at := func(owner string) *Pool { return &pools[owner[0]-'a'] }
		apply := func(changes []Change, sign int) {
			for _, c := range changes {
				p := at(c.Owner)
				p.Pages += sign * c.Pages
				if _, short := l.Resize(c.Owner, "kv", int64(p.Pages)*PageBytes); short != nil || c.Pages <= 0 {
					t.Fatalf("%+v cannot be applied: %v", c, short)
				}
			}
		}
		free := int(l.Free() / PageBytes)
		need := rapid.IntRange(0, 80).Draw(t, "need")
		yields, why, ok := Yield(need, free, pools)
		apply(yields, -1)
		gave := map[string]bool{}
		for _, g := range yields {
			gave[g.Owner] = true
			if p := at(g.Owner); p.Pages < p.Min {
				t.Fatalf("%s is below its minimum", p.Owner)
			}
			for _, lower := range pools {
				if lower.Priority < at(g.Owner).Priority && lower.Pages > lower.Min {
					t.Fatalf("%s yields before %s, which has a lower priority", g.Owner, lower.Owner)
				}
			}
		}
		now := int(l.Free() / PageBytes)
		if ok && now < need || ok && len(yields) > 0 && now != need || !ok && (len(yields) > 0 || why == "") {
			t.Fatalf("%d needed, %d free after %v (%s)", need, now, yields, why)
		}
		for i := range pools {
			pools[i].Share = rapid.IntRange(0, 20).Draw(t, "share")
		}
		apply(Grow(now, pools), 1) // the ledger rejects pages that are not free
	})
}

func TestResizeKeepsPages(t *testing.T) {
	l := NewLedger(4 * PageBytes)
	first, _ := l.Resize("a", "kv", 2*PageBytes)
	if _, short := l.Resize("a", "kv", 5*PageBytes); short == nil || short.Need != 3*PageBytes ||
		l.Free() != 2*PageBytes {
		t.Errorf("%v, %d free", short, l.Free())
	}
	grown, _ := l.Resize("a", "kv", 3*PageBytes-1)
	if len(grown.Pages) != 3 || grown.Pages[0] != first.Pages[0] || grown.Pages[1] != first.Pages[1] {
		t.Errorf("%v grew to %v", first.Pages, grown.Pages)
	}
	if shrunk, _ := l.Resize("a", "kv", 1); len(shrunk.Pages) != 1 || shrunk.Pages[0] != first.Pages[0] ||
		l.Free() != 3*PageBytes || len(grown.Pages) != 3 {
		t.Errorf("%v", shrunk)
	}
}
