package tree

import (
	"slices"

	"troupe/messages"
)

// shownSessions is how many sessions of one gateway are shown beside each other.
const shownSessions = 6

// Root is the tree of a node, named like the node. Whatever has no parent hangs below it.
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

// Fold leaves out sessions where they are many, and says how many in their parent. Those that have crashed are kept.
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
	if left := len(n.GetChildren()) - len(kept); left > 1 { // a line saves nothing over one session
		n.Children, n.Folded = kept, uint32(left)
	}
}
