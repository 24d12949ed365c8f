package tree

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// Snapshot returns the current actors without a local parent, each with its children, sorted by
// name.
func (r *Registry) Snapshot() []*messages.ActorNode {
	r.mu.Lock()
	nodes := make(map[string]*messages.ActorNode, len(r.records))
	for id, rec := range r.records {
		nodes[id] = rec.node(id)
	}
	r.mu.Unlock()
	var roots []*messages.ActorNode
	for id, n := range nodes {
		parent, name := "", id
		if i := strings.LastIndexByte(id, '/'); i >= 0 {
			parent, name = id[:i], id[i+1:]
		}
		n.Name = name
		if p, ok := nodes[parent]; ok {
			p.Children = append(p.Children, n)
		} else {
			roots = append(roots, n)
		}
	}
	sortAll(roots)
	return roots
}

func sortAll(nodes []*messages.ActorNode) {
	slices.SortFunc(nodes, func(a, b *messages.ActorNode) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, n := range nodes {
		sortAll(n.GetChildren())
	}
}

func (r *record) node(id string) *messages.ActorNode {
	return &messages.ActorNode{
		Id: id, Kind: r.kind, Of: r.of, State: messages.ActorState(r.state.Load()), Incarnation: r.restarts.Load() + 1,
		Restarts:    r.restarts.Load(),
		LastFailure: r.failure.Load(), MailboxDepth: uint32(r.mailbox.UserMessageCount()), Messages: r.messages.Load(),
		Started: timestamppb.New(r.started), Watchers: uint32(r.watchers.Load()),
	}
}
