package schedule

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func adapter(key string, uses float64) Adapter { return Adapter{Key: key, Pages: 2, Uses: uses} }

func holding(key string) HeldAdapter { return HeldAdapter{Key: key} }

// TestPrefetch checks which adapters replicas fetch ahead.
func TestPrefetch(t *testing.T) {
	popular := []Adapter{adapter("a", 8), adapter("b", 6), adapter("c", 5), adapter("old", 0.01)}
	pool := func(pages int, held ...HeldAdapter) []AdapterPool {
		return []AdapterPool{{Replica: "m-0", Pages: pages, Held: held}}
	}
	for name, test := range map[string]struct {
		adapters []Adapter
		pools    []AdapterPool
		want     string
	}{
		"the most popular that fit":     {popular, pool(4), "[{m-0 [{a 8} {b 6}]}]"},
		"none without pages":            {popular, pool(1), "[]"},
		"no pool yet":                   {popular, pool(0), "[{m-0 [{a 8} {b 6} {c 5}]}]"},
		"without those that are there":  {popular, pool(6, holding("b")), "[{m-0 [{a 8} {c 5}]}]"},
		"not in place of similar ones":  {popular, pool(4, holding("b"), holding("c")), "[]"},
		"in place of less popular ones": {popular, pool(4, holding("a"), holding("old")), "[{m-0 [{b 6}]}]"},
		"not in place of those in use": {popular, pool(4, HeldAdapter{"old", true}, holding("c")),
			"[]"},
		"smaller ones fit": {[]Adapter{{Key: "large", Pages: 5, Uses: 9}, adapter("a", 1)}, pool(4), "[{m-0 [{a 1}]}]"},
		"the last one used": {[]Adapter{adapter("a", 1), {Key: "b", Pages: 2, Uses: 1, Last: time.Unix(1, 0)}}, pool(2),
			"[{m-0 [{b 1}]}]"},
		"each replica its share": {popular[:1], []AdapterPool{{Replica: "m-10", Pages: 2}, {Replica: "m-2", Pages: 2}},
			"[{m-2 [{a 4}]} {m-10 [{a 4}]}]"},
		"none used": {[]Adapter{adapter("a", 0)}, pool(4), "[]"},
	} {
		if got := fmt.Sprint(Prefetch(test.adapters, test.pools)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestPrefetchInvariants checks that adapters that are fetched ahead fit beside those in use, are not there, and
// that nothing more is fetched once they are there.
func TestPrefetchInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var adapters []Adapter
		pages := make(map[string]int)
		p := AdapterPool{Replica: "m-0", Pages: rapid.IntRange(1, 40).Draw(t, "pages")}
		used := 0
		for i := range rapid.IntRange(0, 30).Draw(t, "adapters") {
			a := Adapter{Key: fmt.Sprint("a", i), Pages: rapid.IntRange(1, 5).Draw(t, "size"),
				Uses: float64(rapid.IntRange(0, 9).Draw(t, "uses"))}
			adapters, pages[a.Key] = append(adapters, a), a.Pages
			if used+a.Pages <= p.Pages && rapid.Bool().Draw(t, "held") {
				used += a.Pages
				p.Held = append(p.Held, HeldAdapter{a.Key, rapid.Bool().Draw(t, "in use")})
			}
		}
		room := p.Pages
		held := make(map[string]bool)
		for _, h := range p.Held {
			if held[h.Key] = true; h.InUse {
				room -= pages[h.Key]
			}
		}
		all := Prefetch(adapters, []AdapterPool{p})
		for _, f := range all {
			for _, a := range f.Adapters {
				room -= pages[a.Key]
				if held[a.Key] || a.Uses == 0 || room < 0 {
					t.Fatalf("%s: held %v, %d pages are left", a.Key, held[a.Key], room)
				}
			}
		}
	})
}
