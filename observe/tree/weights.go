package tree

import (
	"fmt"
	"strings"

	"troupe/core/units"
	"troupe/messages"
)

// AddWeights adds the weights on the devices of a node, given by the names of the GPUs, to the
// actors of these GPUs, and those in its host cache to the actor of that.
func AddWeights(n *messages.ActorNode, byGPU map[string][]*messages.GpuWeights) {
	if n.GetKind() == "gpu" || n.GetKind() == "hostcache" {
		n.Weights = byGPU[n.GetName()]
	}
	for _, c := range n.GetChildren() {
		AddWeights(c, byGPU)
	}
}

// weightsText describes weights: their level, their size and the leases that use them.
func weightsText(w *messages.GpuWeights) string {
	text := strings.ToLower(strings.TrimPrefix(w.GetLevel().String(), "LEVEL_"))
	if w.GetLoading() {
		text = "loading"
	}
	text += ", " + units.FormatBytes(int64(w.GetBytes()))
	if users := w.GetUsers(); len(users) > 0 {
		text += ", used by " + strings.Join(users, ", ")
	}
	return text
}

// dotWeights writes the weights on a device as boxes below its actor.
func dotWeights(b *strings.Builder, prefix string, n *messages.ActorNode) {
	for _, w := range n.GetWeights() {
		id := prefix + n.GetId() + "/" + w.GetOwner()
		fmt.Fprintf(b, "  %q [label=%q, shape=plain];\n  %q -> %q;\n", id,
			w.GetOwner()+"\nweights "+w.GetModel()+"\n"+weightsText(w), prefix+n.GetId(), id)
	}
}
