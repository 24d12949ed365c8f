package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds are the least and the most replicas that the planner may choose. What is not given (0) is as replicas, and that
// is 1 where it is not given either.
func Bounds(replicas, least, most int) (low, high int) {
	replicas = max(1, replicas)
	low = cmp.Or(least, min(replicas, cmp.Or(most, replicas)))
	return low, max(low, cmp.Or(most, replicas))
}

// Count is how many replicas a deployment is to have: replicas, within its bounds.
func Count(replicas, least, most int) int {
	low, high := Bounds(replicas, least, most)
	return min(max(replicas, low), high)
}

// Fleet is what a deployment has and what it is to have.
type Fleet struct {
	Want     int
	Replicas []Replica
	Leaving  []string // nodes to be emptied
	NoRoom   bool     // the last attempt to place another replica was refused
}

// Change is the next move of a deployment.
type Change struct {
	Kind ChangeKind
	Name string // of the replica to stop
	Why  string
}

// ChangeKind says what is done.
type ChangeKind uint8

const (
	Stay ChangeKind = iota
	Start
	Stop
)

// Next is the one change to make now. Nothing is begun while a replica starts or drains. A replica on a node that is to be
// emptied is replaced first and stopped then, one after the other, the least loaded first; where there is no room for a
// substitute, it is stopped only while one elsewhere serves.
func (f Fleet) Next() Change {
	var leaving, staying []Replica
	for _, r := range f.Replicas {
		switch {
		case r.State == Loading:
			return Change{Stay, "", r.Name + " is loading"}
		case r.State == Draining:
			return Change{Stay, "", r.Name + " is draining"}
		case r.State == Failed:
			return Change{Stop, r.Name, r.Name + " has failed"}
		case slices.Contains(f.Leaving, r.Node):
			leaving = append(leaving, r)
		default:
			staying = append(staying, r)
		}
	}
	missing := f.Want - len(staying)
	switch {
	case len(leaving) > missing && len(leaving) > 0:
		return stop(leastLoaded(leaving), "its node is to be emptied; "+replicas(len(staying))+" elsewhere")
	case missing < 0:
		r, why := First(staying)
		return stop(r, fmt.Sprintf("%d of %s too many; %s", -missing, replicas(len(staying)), why))
	case missing == 0:
		return Change{Stay, "", "as many as are wanted"}
	case !f.NoRoom && len(leaving) > 0:
		r := leastLoaded(leaving)
		return Change{Start, "", fmt.Sprintf("a substitute for %s, since %s is to be emptied", r.Name, r.Node)}
	case !f.NoRoom:
		return Change{Start, "", fmt.Sprintf("%d of %s wanted", len(staying), replicas(f.Want))}
	case len(leaving) > 0 && len(staying) > 0:
		return stop(leastLoaded(leaving), "its node is to be emptied; no room for a substitute, "+replicas(len(staying))+" elsewhere")
	case len(leaving) > 0:
		return Change{Stay, "", fmt.Sprintf("no room for a substitute for %s, and nothing else serves", leaving[0].Name)}
	}
	return Change{Stay, "", fmt.Sprintf("%d of %s wanted; no room for another", len(staying), replicas(f.Want))}
}

func stop(r Replica, why string) Change { return Change{Stop, r.Name, why} }

// First is the replica to stop first when there are too many: from the node with the most of them, so that the rest stays
// spread; of these the least loaded, which has the least to finish or to move; then the newest, which has the least in
// its blocks. There must be one.
func First(all []Replica) (r Replica, why string) {
	onNode := make(map[string]int)
	for _, r := range all {
		onNode[r.Node]++
	}
	r = slices.MinFunc(all, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(onNode[b.Node], onNode[a.Node]), cmp.Compare(a.sequences(), b.sequences()), -byNumber(a, b))
	})
	if len(onNode) > 1 && onNode[r.Node] > 1 {
		return r, fmt.Sprintf("%s has %d, of which %s has the fewest sequences: %d", r.Node, onNode[r.Node], r.Name, r.sequences())
	}
	return r, fmt.Sprintf("%s has the fewest sequences: %d", r.Name, r.sequences())
}

// leastLoaded is the one that is moved the soonest.
func leastLoaded(all []Replica) Replica {
	return slices.MinFunc(all, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.sequences(), b.sequences()), byNumber(a, b))
	})
}

func (r Replica) sequences() int { return r.Running + r.Waiting }

// byNumber orders names of the form <model>-<n> by n: the older first.
func byNumber(a, b Replica) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

func replicas(n int) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}
