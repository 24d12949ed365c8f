package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/hbm"
)

// layout returns replicas on GPUs: "x/0": 2 places two replicas on x/0. Every GPU has room for ten.
func layout(on map[string]int) (replicas []Replica, gpus []GPU) {
	var names []string
	for name := range on {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		node, gpu, _ := strings.Cut(name, "/")
		gpus = append(gpus, GPU{Node: node, Name: gpu, Memory: hbm.Budget{Total: 10}, Siblings: on[name]})
		for range on[name] {
			replicas = append(replicas, Replica{
				Name: fmt.Sprint("m-", len(replicas)), Node: node, GPU: gpu, Stage: Serving, Current: true,
				Need: hbm.Need{Fixed: 1},
			})
		}
	}
	return replicas, gpus
}

func TestRebalance(t *testing.T) {
	for name, tc := range map[string]struct {
		on  map[string]int
		but func(replicas []Replica, gpus []GPU)
		why string // empty: no move
	}{
		"a node came back": {
			map[string]int{"a/0": 3, "b/0": 0}, nil,
			"m-2 moves from a/0 to b/0: a has 3 replicas of the model, b none",
		},
		"two on one GPU": {
			map[string]int{"a/0": 2, "b/0": 0}, nil,
			"m-1 moves from a/0 to b/0: a has 2 replicas of the model, b none",
		},
		"two on one node": {
			map[string]int{"a/0": 1, "a/1": 1, "b/0": 0}, nil,
			"m-0 moves from a/0 to b/0: a has 2 replicas of the model, b none",
		},
		"a GPU of the same node": {
			map[string]int{"a/0": 2, "a/1": 0}, nil,
			"m-1 moves from a/0 to a/1: a/0 has 2 replicas of the model, a/1 none",
		},
		"a GPU of a node that has one": {
			map[string]int{"a/0": 2, "b/0": 1, "b/1": 0}, nil,
			"m-1 moves from a/0 to b/1: a/0 has 2 replicas of the model, b/1 none",
		},
		"one of many": {
			map[string]int{"a/0": 4, "b/0": 1}, nil, "m-3 moves from a/0 to b/0: a has 4 replicas of the model, b 1",
		},
		"as even as can be":    {map[string]int{"a/0": 2, "b/0": 1}, nil, ""},
		"a node each":          {map[string]int{"a/0": 1, "b/0": 1, "c/0": 0}, nil, ""},
		"a GPU each":           {map[string]int{"a/0": 1, "a/1": 1, "a/2": 1, "b/0": 1}, nil, ""},
		"not for a shared GPU": {map[string]int{"a/0": 1, "a/1": 1, "a/2": 1, "a/3": 1, "b/0": 1}, nil, ""},
		"the idlest": {
			map[string]int{"a/0": 3, "b/0": 0}, func(c []Replica, _ []GPU) { c[1].Load, c[2].Load = 1, 2 },
			"m-0 moves from a/0",
		},
		"no room": {
			map[string]int{"a/0": 3, "b/0": 0}, func(_ []Replica, g []GPU) { g[1].Memory.Total = 0 }, "",
		},
		"no room for its memory": {
			map[string]int{"a/0": 3, "b/0": 0}, func(c []Replica, _ []GPU) { c[2].Need.Fixed = 11 }, "",
		},
		"the node drains": {
			map[string]int{"a/0": 3, "b/0": 0}, func(_ []Replica, g []GPU) { g[1].Draining = true }, "",
		},
		"it does not answer": {
			map[string]int{"a/0": 3, "b/0": 0}, func(_ []Replica, g []GPU) { g[1].Silent = true }, "",
		},
	} {
		replicas, gpus := layout(tc.on)
		if tc.but != nil {
			tc.but(replicas, gpus)
		}
		if m, ok := Rebalance(replicas, gpus); ok != (tc.why != "") || !strings.HasPrefix(m.Why, tc.why) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestRebalanceTerminates shows that there are at most as many moves as replicas, and that no GPU
// then has two replicas more than another.
func TestRebalanceTerminates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on, total := make(map[string]int), 0
		for node := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			for gpu := range rapid.IntRange(1, 4).Draw(t, "gpus") {
				n := rapid.IntRange(0, 4).Draw(t, "replicas")
				on[fmt.Sprintf("%d/%d", node, gpu)] = n
				total += n
			}
		}
		for range total + 1 {
			replicas, gpus := layout(on)
			m, ok := Rebalance(replicas, gpus)
			if !ok {
				least, most := gpus[0].Siblings, gpus[0].Siblings
				for _, g := range gpus {
					least, most = min(least, g.Siblings), max(most, g.Siblings)
				}
				if most-least > 1 {
					t.Fatalf("it stops at %v", on)
				}
				return
			}
			from := replicas[slices.IndexFunc(replicas, func(c Replica) bool { return c.Name == m.Replica })]
			on[from.Node+"/"+from.GPU]--
			on[m.To.String()]++
		}
		t.Fatalf("no end: %v", on)
	})
}
