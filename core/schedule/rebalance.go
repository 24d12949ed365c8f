package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// Move moves a replica to a better GPU.
type Move struct {
	Replica string
	To      GPU
	Why     string // "m-2 moves from a/gpu-0 to b/gpu-0: a has 3 replicas of the model, b none"
}

// Rebalance returns a move of one replica to a better GPU, if there is one. All replicas of the
// deployment must serve and match the spec. A replica moves if its GPU has at least two more
// replicas than the target, or one more if its node also has at least two more than the target's
// node. Place chooses the target, with as much memory for KV blocks as the replica holds now. From
// a GPU it moves the least loaded replica, and of equals the newest.
//
// Invariant: every move reduces the sum of squares of the replicas per GPU, or keeps that sum and
// reduces the same sum per node. A sequence of moves therefore ends, and the next move never undoes
// one.
func Rebalance(replicas []Replica, gpus []GPU) (Move, bool) {
	onNode := make(map[string]int)
	for _, g := range gpus {
		onNode[g.Node] += g.Siblings
	}
	fullestFirst := slices.Clone(gpus)
	slices.SortFunc(fullestFirst, func(a, b GPU) int {
		return cmp.Or(
			cmp.Compare(b.Siblings, a.Siblings), cmp.Compare(onNode[b.Node], onNode[a.Node]),
			cmp.Compare(a.String(), b.String()),
		)
	})
	for _, from := range fullestFirst {
		c, ok := leastLoaded(replicas, from)
		if !ok {
			continue
		}
		to, _, ok := Place(c.Need, without(gpus, from))
		if !ok {
			continue
		}
		moreOnGPU, moreOnNode := from.Siblings-to.Siblings, onNode[from.Node]-onNode[to.Node]
		source, target, atSource, atTarget := from.String(), to.String(), from.Siblings, to.Siblings
		switch {
		case moreOnNode >= 2 && moreOnGPU >= 1:
			source, target, atSource, atTarget = from.Node, to.Node, onNode[from.Node], onNode[to.Node]
		case moreOnGPU < 2:
			continue
		}
		return Move{c.Name, to, fmt.Sprintf("%s moves from %s to %s: %s has %d replicas of the model, %s %s",
			c.Name, from, to, source, atSource, target, countOrNone(atTarget))}, true
	}
	return Move{}, false
}

// leastLoaded returns the replica of a GPU with the fewest sequences to migrate.
func leastLoaded(replicas []Replica, from GPU) (c Replica, ok bool) {
	on := slices.DeleteFunc(
		slices.Clone(replicas),
		func(c Replica) bool { return c.Node != from.Node || c.GPU != from.Name },
	)
	if len(on) == 0 {
		return Replica{}, false
	}
	return slices.MinFunc(on, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Load, b.Load), -compareAge(a, b))
	}), true
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
