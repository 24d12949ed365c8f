package membership

import (
	"slices"

	"troupe/messages"
	"troupe/node/stored"
)

// Nodes are the nodes of the cluster, as this node knows them.
type Nodes struct {
	Self    string // name of this node
	Live    func() []*messages.Member
	Drained *stored.Drained
}

// Current returns the live members and the names of the nodes that an operator drains.
func (n *Nodes) Current() *messages.MembersChanged {
	return &messages.MembersChanged{Members: n.Live(), Draining: n.Drained.Names()}
}

// Draining reports whether an operator drains this node.
func (n *Nodes) Draining() bool { return n.Drained.Has(n.Self) }

// HavePeers reports whether there is another live node that is not leaving.
func (n *Nodes) HavePeers() bool {
	return slices.ContainsFunc(n.Live(), func(m *messages.Member) bool {
		return m.GetName() != n.Self && m.GetState() == messages.MemberState_MEMBER_STATE_UP
	})
}
