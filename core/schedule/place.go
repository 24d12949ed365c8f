package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"troupe/core/hbm"
	"troupe/core/units"
)

// GPU is a candidate for a replica.
type GPU struct {
	Node        string
	Name        string
	Memory      hbm.Budget
	Siblings    int      // replicas of the same model on this GPU
	Weights     Where    // the nearest place that has the weights of the model
	Evictable   int64    // bytes of weights that no replica uses; they are not in Memory
	Holders     []Holder // models whose replicas are in Memory, and that may leave
	Draining    bool     // the GPU or its node drains
	Quarantined bool     // failed, and takes no replicas
	Avoid       bool     // refused this replica recently
	Silent      bool     // did not answer; the other fields may be unset
	OtherEngine bool     // runs engines of another kind than the replica's
}

// Where is where a GPU can get weights from, the nearest place last.
type Where uint8

// Places, which a load reads in the order of their speed.
const (
	Elsewhere   Where = iota // not on its node, or not known
	InFolder                 // the files of the model
	InDiskImage              // an image on a disk of the node
	InHostCache              // an image in host memory
	OnDevice                 // in the memory of the GPU
)

// String returns what the GPU or its node has.
func (w Where) String() string {
	return [...]string{"", "its node has the folder", "its node has an image of the weights on disk",
		"its node has the weights in host memory", "it has the weights"}[w]
}

// String returns the GPU's name as "node-a/gpu-0".
func (g GPU) String() string {
	if g.Node == "" {
		return g.Name
	}
	return g.Node + "/" + g.Name
}

// Place chooses the GPU for a replica. Siblings share a GPU's speed, so a GPU with the fewest
// siblings comes first, then the node with the fewest, then one without replicas, then the one
// nearest to the weights, then the most spare memory, then the name.
// hbm.Budget counts the memory. If no GPU fits, ok is false and why counts the reasons: "2 of 3
// short of memory by 1.2 GiB or more; 1 draining".
func Place(need hbm.Need, gpus []GPU) (gpu GPU, why string, ok bool) {
	var fit []GPU
	onNode := make(map[string]int)
	for _, g := range gpus {
		onNode[g.Node] += g.Siblings
		if !g.Avoid && g.hasRoom(need) {
			fit = append(fit, g)
		}
	}
	if len(fit) == 0 {
		return GPU{}, explainNoRoom(need, gpus), false
	}
	best := slices.MinFunc(fit, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Siblings, b.Siblings), cmp.Compare(onNode[a.Node], onNode[b.Node]),
			cmp.Compare(number(b.Memory.Replicas == 0), number(a.Memory.Replicas == 0)),
			cmp.Compare(b.Weights, a.Weights), cmp.Compare(b.spare(), a.spare()),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	why = fmt.Sprintf(
		"%s has %s to spare, of %d of %d with room", best, units.FormatBytes(best.spare()), len(fit), len(gpus),
	)
	farther := func(g GPU) bool { return g.Weights < best.Weights }
	if best.Weights == OnDevice || slices.ContainsFunc(fit, farther) {
		why += "; " + best.Weights.String()
	}
	if best.Node != "" && len(onNode) > 1 {
		why += fmt.Sprintf(
			"; it has the fewest of the model's replicas, %d, and %s has %d", best.Siblings, best.Node,
			onNode[best.Node],
		)
	}
	return best, why, true
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// hasRoom reports whether a replica could be placed on the GPU, if it were not avoided.
func (g GPU) hasRoom(need hbm.Need) bool {
	return g.usable() && g.short(need) == 0
}

// usable reports whether a replica could be placed on the GPU but for its memory.
func (g GPU) usable() bool { return !g.Draining && !g.Quarantined && !g.Silent && !g.OtherEngine }

// RoomLater reports whether a GPU that is avoided for a while has room for a replica.
func RoomLater(need hbm.Need, gpus []GPU) bool {
	return slices.ContainsFunc(gpus, func(g GPU) bool { return g.Avoid && g.hasRoom(need) })
}

// short returns the number of bytes missing for a replica, or 0.
func (g GPU) short(need hbm.Need) int64 {
	if _, over := g.Memory.Add(need); over != nil {
		return over.Short
	}
	return 0
}

// ClosestFit returns the shortage of the GPU that lacks the least memory and is otherwise usable,
// and the weights there that would be evicted. It returns nil if no GPU lacks only memory.
func ClosestFit(need hbm.Need, gpus []GPU) (least *hbm.Overload, evictable int64) {
	for _, g := range gpus {
		_, over := g.Memory.Add(need)
		if over != nil && g.usable() && (least == nil || over.Short < least.Short) {
			least, evictable = over, g.Evictable
		}
	}
	return least, evictable
}

// spare returns the memory that the replicas' minimum does not use.
func (g GPU) spare() int64 { return g.Memory.KV() - g.Memory.Min }

func explainNoRoom(need hbm.Need, gpus []GPU) string {
	if len(gpus) == 0 {
		return "no GPU"
	}
	var silent, other, draining, quarantined, avoided, short int
	var by int64
	for _, g := range gpus {
		switch {
		case g.Silent:
			silent++
		case g.OtherEngine:
			other++
		case g.Quarantined:
			quarantined++
		case g.Draining:
			draining++
		case g.Avoid:
			avoided++
		default:
			if missing := g.short(need); short == 0 || missing < by {
				by = missing
			}
			short++
		}
	}
	var parts []string
	if short > 0 {
		parts = append(
			parts, fmt.Sprintf("%d of %d short of memory by %s or more", short, len(gpus), units.FormatBytes(by)),
		)
	}
	for _, r := range []struct {
		n   int
		why string
	}{
		{other, "for other engines"},
		{quarantined, "quarantined"}, {draining, "draining"}, {avoided, "refused it lately"},
		{silent, "did not answer"},
	} {
		if r.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", r.n, r.why))
		}
	}
	return strings.Join(parts, "; ")
}
