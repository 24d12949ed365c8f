package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNext(t *testing.T) {
	ok := func(name string) Copy { return Copy{Name: name, Stage: Present, Current: true} }
	for name, tc := range map[string]struct {
		want             int
		removing, noRoom bool
		copies           []Copy
		step             Change // Why: part of it
	}{
		"the first": {1, false, false, nil, Change{Add, "", "1 of 1 replicas missing"}},
		"one at a time": {
			2, false, false, []Copy{{Name: "a", Stage: Homeless, Current: true}}, Change{Kind: Stay},
		},
		"beside one that loads": {
			2, false, false, []Copy{{Name: "a", Stage: Coming, Current: true}}, Change{Add, "", "1 of 2"},
		},
		"all there":            {1, false, false, []Copy{ok("a")}, Change{Kind: Stay}},
		"no room for one more": {2, false, true, []Copy{ok("a")}, Change{Kind: Stay}},
		"one too many: the younger": {
			1, false, false, []Copy{ok("m-9"), ok("m-10")}, Change{Remove, "m-10", "asked for are 1"},
		},
		"one too many: the idle": {
			1, false, false,
			[]Copy{
				{Name: "a", Stage: Present, Current: true, Load: 1},
				{Name: "b", Stage: Present, Current: true, Load: 2},
			},
			Change{Remove, "a", ""},
		},
		"one too many: what loads": {
			1, false, false, []Copy{ok("a"), {Name: "b", Stage: Coming, Current: true}}, Change{Remove, "b", ""},
		},
		"a substitute first": {
			1, false, false, []Copy{{Name: "a", Stage: Present, Current: true, Evicted: true}}, Change{Add, "", ""},
		},
		"which does not serve yet": {
			1, false, false,
			[]Copy{{Name: "a", Stage: Present, Evicted: true}, {Name: "b", Stage: Coming, Current: true}},
			Change{Kind: Stay},
		},
		"then the old one goes": {
			1, false, false, []Copy{{Name: "a", Stage: Present, Current: true, Evicted: true}, ok("b")},
			Change{Remove, "a", "its GPU is quarantined, and its substitute"},
		},
		"no room beside: emptied stays": {
			1, false, true, []Copy{{Name: "a", Stage: Present, Current: true, Evicted: true}}, Change{Kind: Stay},
		},
		"no room beside: outdated goes": {
			1, false, true, []Copy{{Name: "a", Stage: Present}}, Change{Remove, "a", "no room for its substitute"},
		},
		"one too many: the crowded GPU": {
			3, false, false,
			[]Copy{
				{Name: "a", Node: "x", GPU: "0", Stage: Present, Current: true},
				{Name: "b", Node: "x", GPU: "1", Stage: Present, Current: true},
				{Name: "c", Node: "y", GPU: "0", Stage: Present, Current: true},
				{Name: "d", Node: "y", GPU: "0", Stage: Present, Current: true},
			},
			Change{Remove, "d", "y/0 has 2"},
		},
		"one moves, the other loads": {
			1, false, false,
			[]Copy{{Name: "a", Stage: Present, Current: true, Moves: true}, {Name: "b", Stage: Coming, Current: true}},
			Change{Kind: Stay},
		},
		"one moves, the other serves": {
			1, false, false, []Copy{{Name: "a", Stage: Present, Current: true, Moves: true}, ok("b")},
			Change{Remove, "a", "better place"},
		},
		"fewer while one moves": {
			1, false, false,
			[]Copy{
				ok("a"), {Name: "b", Stage: Present, Current: true, Moves: true},
				{Name: "c", Stage: Coming, Current: true},
			},
			Change{Remove, "c", "does not serve yet"},
		},
		"deleted":                      {1, true, false, []Copy{ok("a")}, Change{Remove, "a", "deleted"}},
		"deleted, and still finishing": {1, true, false, []Copy{{Name: "a", Stage: Going}}, Change{Kind: Stay}},
		"deleted and gone":             {1, true, false, nil, Change{Kind: Gone}},
		"going ones are no more counted": {
			1, false, false, []Copy{{Name: "a", Stage: Going, Current: true}}, Change{Add, "", ""},
		},
	} {
		got := Next(tc.want, tc.removing, tc.noRoom, tc.copies)
		if got.Kind != tc.step.Kind || got.Copy != tc.step.Copy || !strings.Contains(got.Why, tc.step.Why) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestNextConverges: whatever there is, step by step it becomes what was asked for, and never fewer serve on the way than both were
// there and are asked for.
func TestNextConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.IntRange(0, 4).Draw(t, "want")
		var copies []Copy
		for i := range rapid.IntRange(0, 6).Draw(t, "copies") {
			copies = append(copies, Copy{
				Name: fmt.Sprint("m-", i), Stage: Stage(rapid.IntRange(1, 3).Draw(t, "stage")),
				Load:    rapid.IntRange(0, 3).Draw(t, "load"),
				Current: rapid.Bool().Draw(t, "current"), Evicted: rapid.Bool().Draw(t, "evicted"),
				Moves: rapid.Bool().Draw(t, "moves"),
			})
		}
		serving := func() (n int) {
			for _, c := range copies {
				if c.Stage == Present {
					n++
				}
			}
			return n
		}
		least, next := min(want, serving()), len(copies)
		for range 100 {
			step := Next(want, false, false, copies)
			switch i := slices.IndexFunc(copies, func(c Copy) bool { return c.Name == step.Copy }); step.Kind {
			case Add:
				copies = append(copies, Copy{Name: fmt.Sprint("m-", next), Stage: Homeless, Current: true})
				next++
			case Remove:
				if copies[i].Stage == Going {
					t.Fatalf("%s is drained twice", step.Copy)
				}
				copies[i].Stage = Going
			case Stay: // time passes
				busy := slices.IndexFunc(copies, func(c Copy) bool { return c.Stage != Present })
				if busy < 0 {
					if len(copies) != want ||
						slices.ContainsFunc(copies, func(c Copy) bool { return !c.Current || c.Evicted || c.Moves }) {
						t.Fatalf("it rests with %+v, asked for are %d", copies, want)
					}
					return
				}
				if copies[busy].Stage++; copies[busy].Stage > Going {
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
