package tree

import (
	"slices"

	"troupe/messages"
)

// shownSessions is the number of sessions shown per gateway.
const shownSessions = 6

// Root returns the tree of a node, named after the node. Actors without a parent become its
// children.
func Root(node string, roots []*messages.ActorNode) *messages.ActorNode {
	i := slices.IndexFunc(roots, func(n *messages.ActorNode) bool { return n.GetId() == "node" })
	if i < 0 {
		return &messages.ActorNode{Name: node, Id: "node", Kind: "node", Children: roots}
	}
	root := roots[i]
	root.Name = node
	root.Children = slices.Concat(root.GetChildren(), roots[:i], roots[i+1:])
	return root
}

// Fold removes all but the first shownSessions sessions of each actor, and stores the number of
// removed sessions in the actor. It keeps sessions that have crashed.
func Fold(n *messages.ActorNode) {
	var kept []*messages.ActorNode
	well := 0
	for _, c := range n.GetChildren() {
		if c.GetKind() == "session" && c.GetLastFailure() == nil {
			if well++; well > shownSessions {
				continue
			}
		}
		Fold(c)
		kept = append(kept, c)
	}
	// one session takes no more space than the line that replaces it
	if left := len(n.GetChildren()) - len(kept); left > 1 {
		n.Children, n.Folded = kept, uint32(left)
	}
}
