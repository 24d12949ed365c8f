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
		replicas         []Replica
		step             Change // Why is a substring
	}{
		"the first": {1, false, false, nil, Change{Kind: Add, Why: "1 of 1 replicas missing"}},
		"one at a time": {
			2, false, false, []Replica{{Name: "a", Stage: Unplaced, Current: true}}, Change{Kind: NoChange},
		},
		"beside a loading one": {
			2, false, false, []Replica{{Name: "a", Stage: Loading, Current: true}}, Change{Kind: Add, Why: "1 of 2"},
		},
		"complete":             {1, false, false, []Replica{ok("a")}, Change{Kind: NoChange}},
		"no room for one more": {2, false, true, []Replica{ok("a")}, Change{Kind: NoChange}},
		"one too many: the newest": {
			1, false, false, []Replica{ok("m-9"), ok("m-10")}, Change{Kind: Remove, Replica: "m-10", Why: "1 wanted"},
		},
		"one too many: the idlest": {
			1, false, false,
			[]Replica{
				{Name: "a", Stage: Serving, Current: true, Load: 1},
				{Name: "b", Stage: Serving, Current: true, Load: 2},
			},
			Change{Kind: Remove, Replica: "a"},
		},
		"one too many: the loading one": {
			1, false, false, []Replica{ok("a"), {Name: "b", Stage: Loading, Current: true}},
			Change{Kind: Remove, Replica: "b"},
		},
		"a substitute first": {
			1, false, false, []Replica{{Name: "a", Stage: Serving, Current: true, Evicted: true}}, Change{Kind: Add},
		},
		"substitute not serving yet": {
			1, false, false,
			[]Replica{{Name: "a", Stage: Serving, Evicted: true}, {Name: "b", Stage: Loading, Current: true}},
			Change{Kind: NoChange},
		},
		"substitute serves": {
			1, false, false, []Replica{{Name: "a", Stage: Serving, Current: true, Evicted: true}, ok("b")},
			Change{Kind: Remove, Replica: "a", Why: "its GPU is quarantined, and its substitute"},
		},
		"no room: evicted one stays": {
			1, false, true, []Replica{{Name: "a", Stage: Serving, Current: true, Evicted: true}},
			Change{Kind: NoChange},
		},
		"no room: outdated one goes": {
			1, false, true, []Replica{{Name: "a", Stage: Serving}},
			Change{Kind: Remove, Replica: "a", Why: "no room for a substitute"},
		},
		"one too many: on the fullest GPU": {
			3, false, false,
			[]Replica{
				{Name: "a", Node: "x", GPU: "0", Stage: Serving, Current: true},
				{Name: "b", Node: "x", GPU: "1", Stage: Serving, Current: true},
				{Name: "c", Node: "y", GPU: "0", Stage: Serving, Current: true},
				{Name: "d", Node: "y", GPU: "0", Stage: Serving, Current: true},
			},
			Change{Kind: Remove, Replica: "d", Why: "y/0 has 2"},
		},
		"one moves, the other loads": {
			1, false, false,
			[]Replica{
				{Name: "a", Stage: Serving, Current: true, Moving: true}, {Name: "b", Stage: Loading, Current: true},
			},
			Change{Kind: NoChange},
		},
		"one moves, the other serves": {
			1, false, false, []Replica{{Name: "a", Stage: Serving, Current: true, Moving: true}, ok("b")},
			Change{Kind: Remove, Replica: "a", Why: "better GPU"},
		},
		"fewer while one moves": {
			1, false, false,
			[]Replica{
				ok("a"), {Name: "b", Stage: Serving, Current: true, Moving: true},
				{Name: "c", Stage: Loading, Current: true},
			},
			Change{Kind: Remove, Replica: "c", Why: "does not serve yet"},
		},
		"deleted": {
			1, true, false, []Replica{ok("a")}, Change{Kind: Remove, Replica: "a", Why: "deleted"},
		},
		"deleted, still draining": {1, true, false, []Replica{{Name: "a", Stage: Draining}}, Change{Kind: NoChange}},
		"deleted and gone":        {1, true, false, nil, Change{Kind: Deleted}},
		"draining ones do not count": {
			1, false, false, []Replica{{Name: "a", Stage: Draining, Current: true}}, Change{Kind: Add},
		},
	} {
		got := NextChange(tc.want, tc.removing, tc.noRoom, tc.replicas)
		if got.Kind != tc.step.Kind || got.Replica != tc.step.Replica || !strings.Contains(got.Why, tc.step.Why) {
			t.Errorf("%s: %+v", name, got)
		}
		surplus := tc.removing || strings.HasPrefix(name, "one too many") || name == "fewer while one moves"
		if got.Surplus != (surplus && got.Kind == Remove) {
			t.Errorf("%s: surplus is %v", name, got.Surplus)
		}
	}
}

// TestNextChangeConverges shows that repeated changes lead from any state to the wanted one. On the
// way, the number of serving replicas never drops below the smaller of the initial and the wanted
// number.
func TestNextChangeConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.IntRange(0, 4).Draw(t, "want")
		var replicas []Replica
		for i := range rapid.IntRange(0, 6).Draw(t, "replicas") {
			replicas = append(replicas, Replica{
				Name: fmt.Sprint("m-", i), Stage: Stage(rapid.IntRange(1, 3).Draw(t, "stage")),
				Load:    rapid.IntRange(0, 3).Draw(t, "load"),
				Current: rapid.Bool().Draw(t, "current"), Evicted: rapid.Bool().Draw(t, "evicted"),
				Moving: rapid.Bool().Draw(t, "moves"),
			})
		}
		serving := func() (n int) {
			for _, c := range replicas {
				if c.Stage == Serving {
					n++
				}
			}
			return n
		}
		least, next := min(want, serving()), len(replicas)
		for range 100 {
			step := NextChange(want, false, false, replicas)
			switch i := slices.IndexFunc(replicas, func(c Replica) bool { return c.Name == step.Replica }); step.Kind {
			case Add:
				replicas = append(replicas, Replica{Name: fmt.Sprint("m-", next), Stage: Unplaced, Current: true})
				next++
			case Remove:
				if replicas[i].Stage == Draining {
					t.Fatalf("%s is drained twice", step.Replica)
				}
				replicas[i].Stage = Draining
			case NoChange: // time passes
				busy := slices.IndexFunc(replicas, func(c Replica) bool { return c.Stage != Serving })
				if busy < 0 {
					outdated := func(c Replica) bool { return !c.Current || c.Evicted || c.Moving }
					if len(replicas) != want || slices.ContainsFunc(replicas, outdated) {
						t.Fatalf("it stops at %+v, %d wanted", replicas, want)
					}
					return
				}
				if replicas[busy].Stage++; replicas[busy].Stage > Draining {
					replicas = slices.Delete(replicas, busy, busy+1)
				}
			}
			if serving() < least {
				t.Fatalf("%d serve; at least %d must", serving(), least)
			}
		}
		t.Fatalf("no end: %+v", replicas)
	})
}
