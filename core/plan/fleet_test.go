package plan

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCount(t *testing.T) {
	for _, tc := range []struct{ replicas, least, most, want, low, high int }{
		{0, 0, 0, 1, 1, 1},
		{3, 0, 0, 3, 3, 3},
		{3, 1, 4, 3, 1, 4},
		{1, 2, 4, 2, 2, 4},
		{9, 2, 4, 4, 2, 4},
		{1, 2, 0, 2, 2, 2},
		{3, 0, 2, 2, 2, 2},
		{3, 0, 5, 3, 3, 5},
		{3, 4, 2, 4, 4, 4}, // the least wins
	} {
		low, high := Bounds(tc.replicas, tc.least, tc.most)
		if got := Count(tc.replicas, tc.least, tc.most); got != tc.want || low != tc.low || high != tc.high {
			t.Errorf("%+v: %d within %d and %d", tc, got, low, high)
		}
	}
}

func on(node, name string, sequences int) Replica {
	return Replica{Name: name, Node: node, State: Serving, Running: sequences}
}

func TestNext(t *testing.T) {
	for name, tc := range map[string]struct {
		fleet Fleet
		kind  ChangeKind
		which string
		why   string
	}{
		"as wanted":         {Fleet{Want: 1, Replicas: []Replica{on("a", "m-0", 1)}}, Stay, "", "as many as are wanted"},
		"one is missing":    {Fleet{Want: 2, Replicas: []Replica{on("a", "m-0", 1)}}, Start, "", "1 of 2 replicas wanted"},
		"no room":           {Fleet{Want: 2, NoRoom: true, Replicas: []Replica{on("a", "m-0", 1)}}, Stay, "", "1 of 2 replicas wanted; no room for another"},
		"one change a time": {Fleet{Want: 3, Replicas: []Replica{on("a", "m-0", 1), {Name: "m-1", State: Loading}}}, Stay, "", "m-1 is loading"},
		"one drains":        {Fleet{Want: 3, Replicas: []Replica{{Name: "m-1", State: Draining}}}, Stay, "", "m-1 is draining"},
		"one has failed":    {Fleet{Want: 1, Replicas: []Replica{{Name: "m-1", State: Failed}}}, Stop, "m-1", "m-1 has failed"},
		"where there are most": {Fleet{Want: 2, Replicas: []Replica{on("a", "m-0", 5), on("b", "m-1", 0), on("a", "m-2", 3)}}, Stop, "m-2",
			"1 of 3 replicas too many; a has 2, of which m-2 has the fewest sequences: 3"},
		"the least loaded": {Fleet{Want: 1, Replicas: []Replica{on("a", "m-0", 1), on("b", "m-1", 2)}}, Stop, "m-0",
			"1 of 2 replicas too many; m-0 has the fewest sequences: 1"},
		"the newest": {Fleet{Want: 2, Replicas: []Replica{on("a", "m-10", 1), on("b", "m-9", 1), on("c", "m-8", 1)}}, Stop, "m-10", ""},
		"a substitute first": {Fleet{Want: 2, Leaving: []string{"a"}, Replicas: []Replica{on("a", "m-0", 1), on("b", "m-1", 1)}}, Start, "",
			"a substitute for m-0, since a is to be emptied"},
		"then it goes": {Fleet{Want: 2, Leaving: []string{"a"}, Replicas: []Replica{on("a", "m-0", 1), on("b", "m-1", 1), on("b", "m-2", 0)}}, Stop, "m-0",
			"its node is to be emptied; 2 replicas elsewhere"},
		"before the next substitute": {Fleet{Want: 2, Leaving: []string{"a"}, Replicas: []Replica{on("a", "m-0", 3), on("a", "m-1", 2), on("b", "m-2", 0)}}, Stop, "m-1", ""},
		"no room for a substitute": {Fleet{Want: 2, NoRoom: true, Leaving: []string{"a"}, Replicas: []Replica{on("a", "m-0", 1), on("b", "m-1", 1)}}, Stop, "m-0",
			"its node is to be emptied; no room for a substitute, 1 replica elsewhere"},
		"nowhere to go": {Fleet{Want: 1, NoRoom: true, Leaving: []string{"a"}, Replicas: []Replica{on("a", "m-0", 1)}}, Stay, "",
			"no room for a substitute for m-0, and nothing else serves"},
		"none is wanted": {Fleet{Replicas: []Replica{on("a", "m-0", 1)}}, Stop, "m-0", ""},
	} {
		if got := tc.fleet.Next(); got.Kind != tc.kind || got.Name != tc.which || tc.why != "" && got.Why != tc.why || got.Why == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFleetConverges carries out one change after the other. There is never one too many but the substitute, never fewer
// than there were or are wanted while there is room, and never none where there was one; in the end all is as wanted.
func TestFleetConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := []string{"a", "b", "c"}
		f := Fleet{Want: rapid.IntRange(1, 5).Draw(t, "want")}
		f.Leaving = rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 0, 2, rapid.ID[string]).Draw(t, "leaving")
		places := rapid.IntRange(0, 6).Draw(t, "places") // on nodes that stay
		started := 0
		start := func(node string) {
			f.Replicas = append(f.Replicas, on(node, fmt.Sprintf("m-%d", started), rapid.IntRange(0, 3).Draw(t, "sequences")))
			started++
		}
		for range rapid.IntRange(0, 5).Draw(t, "initial") {
			start(rapid.SampledFrom(nodes).Draw(t, "node"))
		}
		staying := func() (n int) {
			for _, r := range f.Replicas {
				if !slices.Contains(f.Leaving, r.Node) {
					n++
				}
			}
			return n
		}
		initial := len(f.Replicas)
		places = max(places, staying())
		for range 50 {
			change := f.Next()
			switch change.Kind {
			case Start:
				if f.NoRoom = staying() >= places; !f.NoRoom {
					i := slices.IndexFunc(nodes, func(n string) bool { return !slices.Contains(f.Leaving, n) })
					start(nodes[i])
				}
			case Stop:
				n := len(f.Replicas)
				f.Replicas = slices.DeleteFunc(f.Replicas, func(r Replica) bool { return r.Name == change.Name })
				if len(f.Replicas) != n-1 {
					t.Fatalf("%+v names none of %v", change, f.Replicas)
				}
			case Stay:
				want := min(f.Want, places)
				if left := len(f.Replicas) - staying(); staying() != want && (staying() != 0 || places != 0) || left > 0 && staying() > 0 {
					t.Fatalf("it stays at %d of %d, and %d on nodes to be emptied: %+v", staying(), want, left, change)
				}
				return
			}
			if n := len(f.Replicas); n == 0 && initial > 0 || n > max(initial, f.Want+1) || !f.NoRoom && n < min(initial, f.Want) {
				t.Fatalf("%d replicas after %+v", n, change)
			}
		}
		t.Fatal("it does not come to an end")
	})
}
