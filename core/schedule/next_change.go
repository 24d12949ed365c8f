package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"troupe/core/hbm"
)

// Replica is the part of a replica's state that NextChange and Rebalance use.
type Replica struct {
	Name    string
	Node    string
	GPU     string
	Stage   Stage
	Current bool     // it matches the spec
	Evicted bool     // its node drains, or its GPU is quarantined
	Moving  bool     // a substitute on a better GPU is loading or serving
	Load    int      // sequences
	Need    hbm.Need // device memory that it needs, or holds if it is placed
}

// Stage is how far a replica has come.
type Stage uint8

const (
	Unplaced Stage = iota // not placed yet, or not confirmed by a GPU
	Loading               // loading its weights
	Serving               // serving requests
	Draining              // finishing its sequences
)

// Change is the next change to a deployment. While a change is in progress, the replicas passed to
// NextChange reflect it.
type Change struct {
	Kind    ChangeKind
	Replica string // the replica to remove, if Kind is Remove
	Why     string
	Surplus bool // Remove: there are more replicas than wanted
}

// ChangeKind is the kind of a Change.
type ChangeKind uint8

const (
	NoChange ChangeKind = iota
	Add                 // place one more replica
	Remove              // drain the replica, then stop it
	Deleted             // a deleted deployment has no replicas left
)

// NextChange returns the next change towards `want` serving replicas that match the spec and whose
// nodes do not drain. A replica is removed after its substitute serves. If noRoom is set, there is
// no room for a substitute: then a replica that does not match the spec is removed first, and an
// evicted one stays.
func NextChange(want int, removing, noRoom bool, replicas []Replica) Change {
	staying := slices.DeleteFunc(slices.Clone(replicas), func(c Replica) bool { return c.Stage == Draining })
	if removing {
		return removeNext(staying, len(replicas))
	}
	var keep, old []Replica
	unplaced, serving := 0, 0
	for _, c := range staying {
		if c.Current && !c.Evicted && !c.Moving {
			keep = append(keep, c)
		} else {
			old = append(old, c)
		}
		switch c.Stage {
		case Unplaced:
			unplaced++
		case Serving:
			serving++
		}
	}
	missing := want - len(keep)
	switch {
	case missing > 0 && unplaced == 0 && !noRoom:
		return Change{Kind: Add, Why: fmt.Sprintf("%d of %d replicas missing", missing, want)}
	case missing < 0:
		c, why := selectRemoval(keep)
		why = fmt.Sprintf("%d replicas, %d wanted; %s", len(keep), want, why)
		return Change{Remove, c.Name, why, true}
	case len(old) == 0:
		return Change{Kind: NoChange}
	}
	switch c, _ := selectRemoval(old); {
	case c.Stage < Serving:
		return Change{Remove, c.Name, c.whyOutdated() + ", and it does not serve yet", false}
	case serving > want:
		return Change{Remove, c.Name, c.whyOutdated() + ", and its substitute serves", false}
	case noRoom && missing > 0:
		if i := slices.IndexFunc(old, func(c Replica) bool { return !c.Current }); i >= 0 {
			return Change{
				Remove, old[i].Name, old[i].whyOutdated() + ", and there is no room for a substitute beside it", false,
			}
		}
	}
	return Change{Kind: NoChange}
}

func removeNext(staying []Replica, all int) Change {
	switch {
	case len(staying) > 0:
		return Change{Remove, staying[0].Name, "the deployment was deleted", true}
	case all > 0:
		return Change{Kind: NoChange}
	}
	return Change{Kind: Deleted}
}

// selectRemoval returns the replica to remove if there are too many. Replicas that do not serve yet
// come first, then those on the GPU and on the node with the most replicas, so that the rest stays
// evenly spread. Among these it prefers the least loaded, which has the fewest sequences to finish
// or migrate, and then the newest, which has the least in its cache.
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

// compareAge orders names of the form <model>-<n> by n, the oldest first.
func compareAge(a, b Replica) int {
	return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
}

// whyOutdated returns why a replica must be replaced.
func (c Replica) whyOutdated() string {
	switch {
	case c.Evicted:
		return "its node drains, or its GPU is quarantined"
	case c.Moving && c.Current:
		return "it moves to a better GPU"
	}
	return "it no longer matches the spec"
}
