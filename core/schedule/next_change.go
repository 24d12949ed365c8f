package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"troupe/core/hbm"
)

// Replica is one replica of a deployment, as far as it matters for what to do next.
type Replica struct {
	Name    string
	Node    string
	GPU     string
	Stage   Stage
	Current bool     // it is as asked for
	Evicted bool     // its node is being emptied, or its GPU is quarantined
	Moving  bool     // a substitute on a better place is on its way, or there
	Load    int      // sequences
	Need    hbm.Need // what it needs on a GPU, or holds there
}

// Stage is how far a copy is.
type Stage uint8

const (
	Unplaced Stage = iota // not placed yet, or not known to be there
	Loading               // it loads
	Serving               // it serves
	Draining              // it finishes what it has
)

// Change is the next change to a deployment. One that takes time shows in the copies as long as it lasts.
type Change struct {
	Kind    ChangeKind
	Replica string // with Remove
	Why     string
}

// ChangeKind is what to do.
type ChangeKind uint8

const (
	NoChange ChangeKind = iota
	Add                 // place one more replica
	Remove              // drain this one, then stop it
	Deleted             // nothing is left, as asked
)

// NextChange decides on the next change, so that `want` copies serve that are as asked for and on nodes that stay. A substitute
// comes first and the old copy goes when it serves; unless there was no room for it beside the old one: then one that is not as asked
// for goes first, and one that is evicted stays.
func NextChange(want int, removing, noRoom bool, copies []Replica) Change {
	staying := slices.DeleteFunc(slices.Clone(copies), func(c Replica) bool { return c.Stage == Draining })
	if removing {
		return removeNext(staying, len(copies))
	}
	var keep, old []Replica
	homeless, serving := 0, 0
	for _, c := range staying {
		if c.Current && !c.Evicted && !c.Moving {
			keep = append(keep, c)
		} else {
			old = append(old, c)
		}
		switch c.Stage {
		case Unplaced:
			homeless++
		case Serving:
			serving++
		}
	}
	missing := want - len(keep)
	switch {
	case missing > 0 && homeless == 0 && !noRoom:
		return Change{Add, "", fmt.Sprintf("%d of %d replicas missing", missing, want)}
	case missing < 0:
		c, why := selectRemoval(keep)
		return Change{Remove, c.Name, fmt.Sprintf("%d replicas, asked for are %d; %s", len(keep), want, why)}
	case len(old) == 0:
		return Change{Kind: NoChange}
	}
	switch c, _ := selectRemoval(old); {
	case c.Stage < Serving:
		return Change{Remove, c.Name, c.whyOutdated() + ", and it does not serve yet"}
	case serving > want:
		return Change{Remove, c.Name, c.whyOutdated() + ", and its substitute serves"}
	case noRoom && missing > 0:
		if i := slices.IndexFunc(old, func(c Replica) bool { return !c.Current }); i >= 0 {
			return Change{Remove, old[i].Name, old[i].whyOutdated() + ", and there is no room for its substitute beside it"}
		}
	}
	return Change{Kind: NoChange}
}

func removeNext(staying []Replica, all int) Change {
	switch {
	case len(staying) > 0:
		return Change{Remove, staying[0].Name, "the deployment was deleted"}
	case all > 0:
		return Change{Kind: NoChange}
	}
	return Change{Kind: Deleted}
}

// first is the copy to go first when there are too many: one that does not serve yet; from the GPU and then the node with
// the most of them, so that the rest stays spread as Place spreads them; of these the least loaded, which has the least to
// finish or to move; then the newest, which has the least in its blocks.
func selectRemoval(all []Replica) (c Replica, why string) {
	type place struct{ node, gpu string }
	onNode, onGPU := make(map[string]int), make(map[place]int)
	for _, c := range all {
		onNode[c.Node]++
		onGPU[place{c.Node, c.GPU}]++
	}
	c = slices.MinFunc(all, func(a, b Replica) int {
		return cmp.Or(
			cmp.Compare(a.Stage, b.Stage),
			cmp.Compare(onGPU[place{b.Node, b.GPU}], onGPU[place{a.Node, a.GPU}]),
			cmp.Compare(onNode[b.Node], onNode[a.Node]),
			cmp.Compare(a.Load, b.Load),
			-compareAge(a, b),
		)
	})
	switch {
	case c.Stage < Serving:
		why = c.Name + " does not serve yet"
	case len(onGPU) > 1 && onGPU[place{c.Node, c.GPU}] > 1:
		on := GPU{Node: c.Node, Name: c.GPU}
		why = fmt.Sprintf(
			"%s has %d, of which %s has the fewest sequences: %d", on, onGPU[place{c.Node, c.GPU}], c.Name, c.Load,
		)
	case len(onNode) > 1 && onNode[c.Node] > 1:
		why = fmt.Sprintf("%s has %d, of which %s has the fewest sequences: %d", c.Node, onNode[c.Node], c.Name, c.Load)
	default:
		why = fmt.Sprintf("%s has the fewest sequences: %d", c.Name, c.Load)
	}
	return c, why
}

// compareAge orders names of the form <model>-<n> by n: the older first.
func compareAge(a, b Replica) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// fault is why a copy is not one of those asked for.
func (c Replica) whyOutdated() string {
	switch {
	case c.Evicted:
		return "its node is being emptied, or its GPU is quarantined"
	case c.Moving && c.Current:
		return "it moves to a better place"
	}
	return "it is not as asked for any more"
}
