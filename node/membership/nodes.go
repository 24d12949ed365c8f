package membership

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/members"
	"troupe/messages"
	"troupe/node/stored"
)

// Nodes are the nodes of the cluster, as this node knows them.
type Nodes struct {
	Self     string // name of this node
	Live     func() []*messages.Member
	Departed func() []members.Departed
	Drained  *stored.Drained
}

// Current returns the live members, those that departed recently, and the names of the nodes that an
// operator drains.
func (n *Nodes) Current() *messages.MembersChanged {
	now := &messages.MembersChanged{Members: n.Live(), Draining: n.Drained.Names()}
	for _, d := range n.Departed() {
		now.Departed = append(now.Departed, &messages.DepartedMember{
			Name: d.Member.GetName(), LastSeen: timestamppb.New(d.LastSeen),
		})
	}
	return now
}

// Draining reports whether an operator drains this node.
func (n *Nodes) Draining() bool { return n.Drained.Has(n.Self) }

// HavePeers reports whether there is another live node that is not leaving.
func (n *Nodes) HavePeers() bool {
	return slices.ContainsFunc(n.Live(), func(m *messages.Member) bool {
		return m.GetName() != n.Self && m.GetState() == messages.MemberState_MEMBER_STATE_UP
	})
}
