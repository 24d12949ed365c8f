package membership

import (
	"github.com/rs/zerolog"

	"troupe/cluster/members"
	"troupe/messages"
)

// Changes passes changes of the members to the parts of a node that follow them.
type Changes struct {
	Nodes *Nodes
	Link  interface{ SetMembers(addresses []string) }
	Bus   interface{ SetMembers(live []*messages.Member) }
	Audit interface {
		Members(live, left []*messages.Member)
	}
	Publish func(kind, subject, detail string)
	Send    func(*messages.MembersChanged) // sends to the actors that need it
	Log     zerolog.Logger
}

// On handles a change of the members.
func (s *Changes) On(c members.Change) {
	addresses := make([]string, len(c.Live))
	for i, m := range c.Live {
		addresses[i] = m.GetAddress()
	}
	s.Link.SetMembers(addresses)
	s.Bus.SetMembers(c.Live)
	s.Audit.Members(c.Live, c.Left)
	for _, m := range c.Left {
		s.Log.Info().Str("member", m.GetName()).Msg("member left")
	}
	if c.Rejoined {
		s.Publish("node.rejoined", s.Nodes.Self, "the other nodes presumed it dead and took its leases over")
	}
	now := s.Nodes.Current()
	now.Left = c.Left
	s.Send(now)
}

// OnDrained notifies the actors that the set of drained nodes has changed.
func (s *Changes) OnDrained() { s.Send(s.Nodes.Current()) }
