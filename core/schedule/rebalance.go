package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// Move is a replica that is better placed on another GPU.
type Move struct {
	Replica string
	To      GPU
	Why     string // "m-2 moves from a/gpu-0 to b/gpu-0: a has 3 replicas of the model, b none"
}

// Rebalance decides whether one of a deployment's replicas, which all serve and are as asked for, is better placed
// elsewhere: where its GPU has two more of them than another one, or one more and its node two more than that one's node.
// It goes where Place puts it, with as much memory for KV blocks as it holds now. Of a GPU's replicas the
// least loaded goes, and of these the newest.
//
// Invariant: every move lessens the sum of squares of the replicas per GPU, or leaves that and lessens the one per node. So
// moves come to an end, and none is ever undone by the next.
func Rebalance(copies []Replica, gpus []GPU) (Move, bool) {
	onNode := make(map[string]int)
	for _, g := range gpus {
		onNode[g.Node] += g.Siblings
	}
	crowded := slices.Clone(gpus)
	slices.SortFunc(crowded, func(a, b GPU) int {
		return cmp.Or(
			cmp.Compare(b.Siblings, a.Siblings), cmp.Compare(onNode[b.Node], onNode[a.Node]),
			cmp.Compare(a.String(), b.String()),
		)
	})
	for _, from := range crowded {
		c, ok := leastLoaded(copies, from)
		if !ok {
			continue
		}
		to, _, ok := Place(c.Need, without(gpus, from))
		if !ok {
			continue
		}
		crowd, nodes := from.Siblings-to.Siblings, onNode[from.Node]-onNode[to.Node]
		what, there, these, those := from.String(), to.String(), from.Siblings, to.Siblings
		switch {
		case nodes >= 2 && crowd >= 1:
			what, there, these, those = from.Node, to.Node, onNode[from.Node], onNode[to.Node]
		case crowd < 2:
			continue
		}
		return Move{c.Name, to, fmt.Sprintf("%s moves from %s to %s: %s has %d replicas of the model, %s %s",
			c.Name, from, to, what, these, there, countOrNone(those))}, true
	}
	return Move{}, false
}

// leaver is the replica on a GPU that has the least to move.
func leastLoaded(copies []Replica, from GPU) (c Replica, ok bool) {
	on := slices.DeleteFunc(
		slices.Clone(copies),
		func(c Replica) bool { return c.Node != from.Node || c.GPU != from.Name },
	)
	if len(on) == 0 {
		return Replica{}, false
	}
	return slices.MinFunc(on, func(a, b Replica) int { return cmp.Or(cmp.Compare(a.Load, b.Load), -compareAge(a, b)) }), true
}

func without(gpus []GPU, one GPU) []GPU {
	return slices.DeleteFunc(slices.Clone(gpus), func(g GPU) bool { return g.Node == one.Node && g.Name == one.Name })
}

func countOrNone(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}
