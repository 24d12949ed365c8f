package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNextChange(t *testing.T) {
	ok := func(name string) Replica { return Replica{Name: name, Stage: Serving, Current: true} }
	for name, tc := range map[string]struct {
		want             int
		removing, noRoom bool
		copies           []Replica
		step             Change // Why: part of it
	}{
		"the first": {1, false, false, nil, Change{Add, "", "1 of 1 replicas missing"}},
		"one at a time": {
			2, false, false, []Replica{{Name: "a", Stage: Unplaced, Current: true}}, Change{Kind: NoChange},
		},
		"beside one that loads": {
			2, false, false, []Replica{{Name: "a", Stage: Loading, Current: true}}, Change{Add, "", "1 of 2"},
		},
		"all there":            {1, false, false, []Replica{ok("a")}, Change{Kind: NoChange}},
		"no room for one more": {2, false, true, []Replica{ok("a")}, Change{Kind: NoChange}},
		"one too many: the younger": {
			1, false, false, []Replica{ok("m-9"), ok("m-10")}, Change{Remove, "m-10", "asked for are 1"},
		},
		"one too many: the idle": {
			1, false, false,
			[]Replica{
				{Name: "a", Stage: Serving, Current: true, Load: 1},
				{Name: "b", Stage: Serving, Current: true, Load: 2},
			},
			Change{Remove, "a", ""},
		},
		"one too many: what loads": {
			1, false, false, []Replica{ok("a"), {Name: "b", Stage: Loading, Current: true}}, Change{Remove, "b", ""},
		},
		"a substitute first": {
			1, false, false, []Replica{{Name: "a", Stage: Serving, Current: true, Evicted: true}}, Change{Add, "", ""},
		},
		"which does not serve yet": {
			1, false, false,
			[]Replica{{Name: "a", Stage: Serving, Evicted: true}, {Name: "b", Stage: Loading, Current: true}},
			Change{Kind: NoChange},
		},
		"then the old one goes": {
			1, false, false, []Replica{{Name: "a", Stage: Serving, Current: true, Evicted: true}, ok("b")},
			Change{Remove, "a", "its GPU is quarantined, and its substitute"},
		},
		"no room beside: emptied stays": {
			1, false, true, []Replica{{Name: "a", Stage: Serving, Current: true, Evicted: true}}, Change{Kind: NoChange},
		},
		"no room beside: outdated goes": {
			1, false, true, []Replica{{Name: "a", Stage: Serving}}, Change{Remove, "a", "no room for its substitute"},
		},
		"one too many: the crowded GPU": {
			3, false, false,
			[]Replica{
				{Name: "a", Node: "x", GPU: "0", Stage: Serving, Current: true},
				{Name: "b", Node: "x", GPU: "1", Stage: Serving, Current: true},
				{Name: "c", Node: "y", GPU: "0", Stage: Serving, Current: true},
				{Name: "d", Node: "y", GPU: "0", Stage: Serving, Current: true},
			},
			Change{Remove, "d", "y/0 has 2"},
		},
		"one moves, the other loads": {
			1, false, false,
			[]Replica{{Name: "a", Stage: Serving, Current: true, Moving: true}, {Name: "b", Stage: Loading, Current: true}},
			Change{Kind: NoChange},
		},
		"one moves, the other serves": {
			1, false, false, []Replica{{Name: "a", Stage: Serving, Current: true, Moving: true}, ok("b")},
			Change{Remove, "a", "better place"},
		},
		"fewer while one moves": {
			1, false, false,
			[]Replica{
				ok("a"), {Name: "b", Stage: Serving, Current: true, Moving: true},
				{Name: "c", Stage: Loading, Current: true},
			},
			Change{Remove, "c", "does not serve yet"},
		},
		"deleted":                      {1, true, false, []Replica{ok("a")}, Change{Remove, "a", "deleted"}},
		"deleted, and still finishing": {1, true, false, []Replica{{Name: "a", Stage: Draining}}, Change{Kind: NoChange}},
		"deleted and gone":             {1, true, false, nil, Change{Kind: Deleted}},
		"going ones are no more counted": {
			1, false, false, []Replica{{Name: "a", Stage: Draining, Current: true}}, Change{Add, "", ""},
		},
	} {
		got := NextChange(tc.want, tc.removing, tc.noRoom, tc.copies)
		if got.Kind != tc.step.Kind || got.Replica != tc.step.Replica || !strings.Contains(got.Why, tc.step.Why) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestNextChangeConverges: whatever there is, step by step it becomes what was asked for, and never fewer serve on the way than both were
// there and are asked for.
func TestNextChangeConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.IntRange(0, 4).Draw(t, "want")
		var copies []Replica
		for i := range rapid.IntRange(0, 6).Draw(t, "copies") {
			copies = append(copies, Replica{
				Name: fmt.Sprint("m-", i), Stage: Stage(rapid.IntRange(1, 3).Draw(t, "stage")),
				Load:    rapid.IntRange(0, 3).Draw(t, "load"),
				Current: rapid.Bool().Draw(t, "current"), Evicted: rapid.Bool().Draw(t, "evicted"),
				Moving: rapid.Bool().Draw(t, "moves"),
			})
		}
		serving := func() (n int) {
			for _, c := range copies {
				if c.Stage == Serving {
					n++
				}
			}
			return n
		}
		least, next := min(want, serving()), len(copies)
		for range 100 {
			step := NextChange(want, false, false, copies)
			switch i := slices.IndexFunc(copies, func(c Replica) bool { return c.Name == step.Replica }); step.Kind {
			case Add:
				copies = append(copies, Replica{Name: fmt.Sprint("m-", next), Stage: Unplaced, Current: true})
				next++
			case Remove:
				if copies[i].Stage == Draining {
					t.Fatalf("%s is drained twice", step.Replica)
				}
				copies[i].Stage = Draining
			case NoChange: // time passes
				busy := slices.IndexFunc(copies, func(c Replica) bool { return c.Stage != Serving })
				if busy < 0 {
					if len(copies) != want ||
						slices.ContainsFunc(copies, func(c Replica) bool { return !c.Current || c.Evicted || c.Moving }) {
						t.Fatalf("it rests with %+v, asked for are %d", copies, want)
					}
					return
				}
				if copies[busy].Stage++; copies[busy].Stage > Draining {
					copies = slices.Delete(copies, busy, busy+1)
				}
			}
			if serving() < least {
				t.Fatalf("%d serve; there were, and are asked for, %d", serving(), least)
			}
		}
		t.Fatalf("no end: %+v", copies)
	})
}
