package route

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naive is a routing table with full scans.
type naive struct {
	replicas map[string]Replica
	blocks   map[string]map[uint64]bool
	routed   map[string][]int // by replica: prompt tokens of each request sent since its last report
	loading  map[string]bool  // by "replica adapter"; loads requested since the replica's last report
	typical  float64
}

func (m *naive) load(r Replica) int { return r.Running + r.Waiting + len(m.routed[r.Name]) }

func (m *naive) cached(r Replica, q Request) int {
	tokens := 0
	for _, h := range q.Hashes {
		if !m.blocks[r.Name][h] || tokens+r.BlockTokens >= q.Tokens {
			break
		}
		tokens += r.BlockTokens
	}
	return tokens
}

// cost is the formula of the package's comment.
func (m *naive) cost(r Replica, q Request) int {
	queue := r.Waiting*int(m.typical) + q.Tokens - m.cached(r, q)
	for _, tokens := range m.routed[r.Name] {
		queue += tokens
	}
	steps := int(math.Ceil(float64(queue) / float64(max(1, r.StepTokens-r.Running))))
	cost := queue + steps*min(m.load(r), max(r.MaxSequences, r.Running))
	for n := r.MaxSequences; n < m.load(r)+1; n++ {
		cost += 256
	}
	where, held := r.Adapters[q.Adapter]
	switch {
	case q.Adapter == "", where == OnGPU:
	case held && where == InDRAM, m.loading[r.Name+" "+q.Adapter]:
		cost += 64
	default:
		cost += 512
	}
	return cost + max(0, queue-r.KVBlocksFree*r.BlockTokens)
}

// clearLoading drops the adapters that were requested from a replica, as a report does.
func (m *naive) clearLoading(replica string) {
	maps.DeleteFunc(m.loading, func(key string, _ bool) bool { return strings.HasPrefix(key, replica+" ") })
}

func (r Replica) serves() bool { return r.State == Serving && !r.Faulty }

// choices returns the replicas that may be chosen, by name.
func (m *naive) choices(q Request) map[string]Replica {
	choices := maps.Clone(m.replicas)
	maps.DeleteFunc(
		choices,
		func(_ string, r Replica) bool { return !r.serves() || slices.Contains(q.Avoid, r.Name) },
	)
	if len(choices) == 0 {
		maps.Copy(choices, m.replicas)
		maps.DeleteFunc(choices, func(_ string, r Replica) bool { return !r.serves() })
		return choices
	}
	sum, n := 0, len(choices)
	for _, r := range choices {
		sum += m.load(r)
	}
	maps.DeleteFunc(choices, func(_ string, r Replica) bool {
		return float64(m.load(r)) > 1.5*float64(sum)/float64(n)+float64(r.MaxSequences)/8
	})
	return choices
}

func drawReplica(t *rapid.T, name string) Replica {
	return Replica{
		Name: name, Node: "node-a",
		State:   rapid.SampledFrom([]State{Serving, Serving, Serving, Draining, Loading, Failed}).Draw(t, "state"),
		Faulty:  rapid.IntRange(0, 4).Draw(t, "faulty") == 0,
		Running: rapid.IntRange(0, 10).Draw(t, "running"), Waiting: rapid.IntRange(0, 5).Draw(t, "waiting"),
		MaxSequences: 8, StepTokens: 32,
		BlockTokens: 16, KVBlocks: 64, KVBlocksFree: rapid.IntRange(0, 64).Draw(t, "free"),
		Adapters: rapid.MapOf(
			rapid.SampledFrom(someAdapters), rapid.SampledFrom([]Residence{OnDisk, InDRAM, OnGPU}),
		).Draw(t, "adapters"),
	}
}

var someAdapters = []string{"a@1", "a@2", "b@7"}

// TestRoutesAgainstNaive drives a table and a naive one with the same random calls, with more
// replicas than a word has bits.
func TestRoutesAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := NewRoutes()
		m := &naive{
			replicas: map[string]Replica{}, blocks: map[string]map[uint64]bool{}, routed: map[string][]int{},
			loading: map[string]bool{}, typical: 256,
		}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("m-%d", rapid.IntRange(0, 5).Draw(t, "n")) })
		blocks := rapid.SliceOfN(rapid.Uint64Range(0, 12), 0, 12)
		requests := 0
		t.Repeat(map[string]func(*rapid.T){
			"crowd": func(t *rapid.T) { // replicas that drain
				for i := range 70 {
					r := Replica{Name: fmt.Sprintf("crowd-%d", i), State: Draining}
					routes.Update(r)
					m.replicas[r.Name] = r
				}
			},
			"update": func(t *rapid.T) {
				r := drawReplica(t, name.Draw(t, "name"))
				routes.Update(r)
				m.replicas[r.Name], m.routed[r.Name] = r, nil
				m.clearLoading(r.Name)
				if m.blocks[r.Name] == nil {
					m.blocks[r.Name] = map[uint64]bool{}
				}
			},
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "name")
				routes.Remove(n)
				delete(m.replicas, n)
				delete(m.blocks, n)
				delete(m.routed, n)
				m.clearLoading(n)
			},
			"blocks": func(t *rapid.T) {
				n, evicted, committed := name.Draw(t, "name"), blocks.Draw(t, "evicted"), blocks.Draw(t, "committed")
				routes.UpdateBlocks(n, evicted, committed)
				for _, b := range evicted {
					delete(m.blocks[n], b)
				}
				for _, b := range committed {
					if m.blocks[n] != nil {
						m.blocks[n][b] = true
					}
				}
			},
			"reset": func(t *rapid.T) {
				n, committed := name.Draw(t, "name"), blocks.Draw(t, "committed")
				routes.ResetBlocks(n, committed)
				clear(m.blocks[n])
				for _, b := range committed {
					if m.blocks[n] != nil {
						m.blocks[n][b] = true
					}
				}
			},
			"route": func(t *rapid.T) {
				requests++
				q := Request{
					ID: fmt.Sprint(requests), Hashes: rapid.SliceOfN(rapid.Uint64Range(0, 12), 0, 6).Draw(t, "hashes"),
					Avoid:   rapid.SliceOfN(name, 0, 2).Draw(t, "avoid"),
					Adapter: rapid.SampledFrom(append(someAdapters, "")).Draw(t, "adapter"),
				}
				q.Tokens = 16*len(q.Hashes) + rapid.IntRange(0, 15).Draw(t, "tail")
				compareDecision(t, m, q, routes.Route(q))
			},
			"": func(t *rapid.T) {
				for n, held := range m.blocks {
					if got := routes.BlocksOf(n); !maps.Equal(held, setOf(got)) || len(got) != len(held) {
						t.Fatalf("%s holds %v, want %v", n, got, held)
					}
				}
			},
		})
	})
}

func setOf(blocks []uint64) map[uint64]bool {
	set := map[uint64]bool{}
	for _, b := range blocks {
		set[b] = true
	}
	return set
}

// compareDecision compares a decision with the naive table, and counts it there.
func compareDecision(t *rapid.T, m *naive, q Request, d Decision) {
	choices := m.choices(q)
	if d.OK != (len(choices) > 0) || d.OK == (d.Name == "") || d.Why() == "" {
		t.Fatalf("serving: %v, %q, %q; may be chosen: %v", d.OK, d.Name, d.Why(), choices)
	}
	if known := len(m.replicas); len(d.Candidates) != min(known, maxCandidates) {
		t.Fatalf("%d candidates of %d", len(d.Candidates), known)
	}
	for i, c := range d.Candidates {
		r := m.replicas[c.Name]
		if c.Cost != m.cost(r, q) && r.serves() {
			t.Fatalf("counted: %s costs %d, not %d", c.Name, c.Cost, m.cost(r, q))
		}
		if !r.serves() && c.Cached != 0 {
			t.Fatalf("serving: the blocks of %s were matched: %+v", c.Name, c)
		}
		eligible := c.Excluded == Eligible || c.Excluded == Avoided && d.Candidates[0].Excluded == Avoided
		if _, ok := choices[c.Name]; ok != eligible {
			t.Fatalf("%s: %q; may be chosen: %v", c.Name, c.Excluded, ok)
		}
		if i > 0 &&
			cmp.Or(
				cmp.Compare(d.Candidates[i-1].Excluded, c.Excluded),
				cmp.Compare(d.Candidates[i-1].Cost, c.Cost),
			) > 0 {
			t.Fatalf("order: %+v", d.Candidates)
		}
	}
	if !d.OK {
		return
	}
	chosen, ok := choices[d.Name]
	if !ok {
		t.Fatalf("share or serving: %s may not be chosen", d.Name)
	}
	for _, other := range choices {
		if m.cost(other, q) < m.cost(chosen, q) {
			t.Fatalf("cheapest: %s costs %d, %s %d", d.Name, m.cost(chosen, q), other.Name, m.cost(other, q))
		}
	}
	prefill := q.Tokens - m.cached(chosen, q)
	m.routed[d.Name] = append(m.routed[d.Name], prefill)
	m.loading[d.Name+" "+q.Adapter] = true
	m.typical += (float64(prefill) - m.typical) / 16
}

func serving(name string) Replica {
	return Replica{
		Name: name, Node: "node-" + name[len(name)-1:], State: Serving, MaxSequences: 64, StepTokens: 512,
		BlockTokens: 16,
	}
}

func chain(from, n int) (hashes []uint64) {
	for i := range n {
		hashes = append(hashes, uint64(from+i))
	}
	return hashes
}

func TestWhyExplainsDecision(t *testing.T) {
	prompt := Request{ID: "r", Hashes: chain(1, 8), Tokens: 128}
	for name, tc := range map[string]struct {
		build func(*Routes)
		avoid []string
		want  string
	}{
		"cached": {func(t *Routes) {
			r := serving("m-1")
			r.Running = 3
			t.Update(r)
			t.UpdateBlocks("m-1", nil, chain(1, 6))
			t.Update(serving("m-0"))
		}, nil, "m-1 on node-1: 96 of 128 prompt tokens cached, 3 sequences ahead; m-0 would compute 128"},
		"never the last token": {func(t *Routes) {
			t.Update(serving("m-0"))
			t.UpdateBlocks("m-0", nil, chain(1, 8))
		}, nil, "m-0 on node-0: 112 of 128 prompt tokens cached, 0 sequences ahead; no other serves"},
		"a block in the middle is missing": {func(t *Routes) {
			t.Update(serving("m-0"))
			t.UpdateBlocks("m-0", nil, chain(1, 8))
			t.UpdateBlocks("m-0", []uint64{3}, nil)
		}, nil, "m-0 on node-0: 32 of 128 prompt tokens cached, 0 sequences ahead; no other serves"},
		"more than its share": {func(t *Routes) {
			hot := serving("m-0")
			hot.Running = 20
			t.Update(hot)
			t.UpdateBlocks("m-0", nil, chain(1, 8))
			t.Update(serving("m-1"))
			t.Update(serving("m-2"))
			r := serving("m-2")
			r.Running = 1
			t.Update(r)
		}, nil, "m-1 on node-1: 0 of 128 prompt tokens cached, 0 sequences ahead; m-0 has 112 cached but has more " +
			"than its share, 20 sequences"},
		"less loaded": {func(t *Routes) {
			r := serving("m-0")
			r.Waiting = 1
			t.Update(r)
			t.Update(serving("m-1"))
		}, nil, "m-1 on node-1: 0 of 128 prompt tokens cached, 0 sequences ahead; m-0 would compute 128 behind 1 " +
			"sequence"},
		"as many sequences, but more to compute": {func(t *Routes) {
			r := serving("m-0")
			r.Waiting = 1
			t.Update(r)
			r = serving("m-1")
			r.Running = 1
			t.Update(r)
		}, nil, "m-1 on node-1: 0 of 128 prompt tokens cached, 1 sequence ahead; m-0 would compute 385 tokens first, " +
			"not 129"},
		"it failed before": {func(t *Routes) {
			t.Update(serving("m-0"))
			t.UpdateBlocks("m-0", nil, chain(1, 8))
			t.Update(serving("m-1"))
		}, []string{"m-0"}, "m-1 on node-1: 0 of 128 prompt tokens cached, 0 sequences ahead; m-0 has 112 cached but " +
			"failed this request before"},
		"it failed before, and no other serves": {func(t *Routes) {
			t.Update(serving("m-0"))
		}, []string{"m-0"}, "m-0 on node-0: 0 of 128 prompt tokens cached, 0 sequences ahead; it failed this request " +
			"before, but no other serves"},
		"none serves": {func(t *Routes) {
			t.Update(Replica{Name: "m-0", State: Draining})
			t.Update(Replica{Name: "m-1"})
			t.Update(Replica{Name: "m-2"})
		}, nil, "no replica serves: 1 draining; 2 loading"},
		"none": {func(*Routes) {}, nil, "no replica is known"},
	} {
		routes := NewRoutes()
		tc.build(routes)
		q := prompt
		q.Avoid = tc.avoid
		if got := routes.Route(q).Why(); got != tc.want {
			t.Errorf("%s:\n  %s\nwant\n  %s", name, got, tc.want)
		}
	}
}

// TestTiesSpreadEvenly shows that equal replicas get equal shares in any order of their reports,
// and that every router decides the same.
func TestTiesSpreadEvenly(t *testing.T) {
	const n, requests = 5, 5000
	got, decided := map[string]int{}, map[string]string{}
	for _, backwards := range []bool{false, true} {
		for i := range requests {
			routes := NewRoutes() // without routed requests
			for j := range n {
				if backwards {
					j = n - 1 - j
				}
				routes.Update(serving(fmt.Sprintf("m-%d", j)))
			}
			id := fmt.Sprintf("request-%d", i)
			name := routes.Route(Request{ID: id, Tokens: 64}).Name
			if first, ok := decided[id]; ok && first != name {
				t.Fatalf("%s goes to %s and to %s", id, first, name)
			}
			decided[id] = name
			got[name]++
		}
	}
	for name, count := range got { // ± 5 standard deviations of 28 each
		if share := count / 2; share < requests/n-140 || share > requests/n+140 {
			t.Errorf("%s got %d of %d; all: %v", name, share, requests, got)
		}
	}
	if len(got) != n {
		t.Errorf("only %v got requests", got)
	}
}

// TestHotPrefixSpreads routes endless streams that share a prefix. Only one replica has the prefix
// cached.
func TestHotPrefixSpreads(t *testing.T) {
	routes := NewRoutes()
	running := map[string]int{}
	report := func() {
		for i := range 4 {
			r := serving(fmt.Sprintf("m-%d", i))
			r.Running = running[r.Name]
			routes.Update(r)
		}
	}
	report()
	routes.UpdateBlocks("m-2", nil, chain(1, 64))
	for i := range 100 {
		d := routes.Route(Request{ID: fmt.Sprint(i), Hashes: chain(1, 64), Tokens: 64*16 + 1})
		running[d.Name]++
		report()
	}
	if hot := running["m-2"]; hot < 30 || hot > 48 { // 1.5 · 25 + 8, plus one
		t.Errorf("the replica that holds the prefix got %d of 100: %v", hot, running)
	}
}

// TestDrainingReplicaMatchesNoBlocks shows that the blocks of a replica no longer count once it
// drains.
func TestDrainingReplicaMatchesNoBlocks(t *testing.T) {
	routes, prompt := NewRoutes(), Request{ID: "r", Hashes: chain(1, 4), Tokens: 65}
	routes.Update(serving("m-0"))
	routes.UpdateBlocks("m-0", nil, chain(1, 4))
	before := routes.Route(prompt)
	r := serving("m-0")
	r.State = Draining
	routes.Update(r)
	if after := routes.Route(prompt); before.Candidates[0].Cached != 64 || after.OK || after.Candidates[0].Cached != 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// TestCollidingHashesCostOnlyAWrongGuess checks two blocks that share their 8 bytes and are one to
// the index. After one is evicted the guess is wrong, and nothing else.
func TestCollidingHashesCostOnlyAWrongGuess(t *testing.T) {
	routes := NewRoutes()
	routes.Update(serving("m-0"))
	routes.UpdateBlocks("m-0", nil, []uint64{7, 7})
	routes.UpdateBlocks("m-0", []uint64{7}, nil)
	routes.UpdateBlocks("m-0", []uint64{7}, nil)
	if d := routes.Route(Request{ID: "r", Hashes: []uint64{7}, Tokens: 17}); d.Name != "m-0" ||
		d.Candidates[0].Cached != 0 {
		t.Errorf("%+v", d)
	}
}

func TestEveryExclusionHasText(t *testing.T) {
	for e := OverShare; e <= HasFailed; e++ {
		if strings.TrimSpace(e.String()) == "" {
			t.Errorf("exclusion %d has no text", e)
		}
	}
}
