package top

import (
	"strings"

	"troupe/messages"
)

// alarm is a line that says why changes are refused, or none.
func (m Model) alarm() []string {
	s := m.now.Store
	if s == nil {
		return nil
	}
	reason := strings.ReplaceAll(strings.TrimPrefix(s.GetReason().String(), "REASON_"), "_", " ")
	return []string{
		moods[bad].Render(reason + ": changes are refused: " + strings.ReplaceAll(s.GetDetail(), "\n", " ")),
	}
}

// out reports whether a node is out of the cluster, and shown for a while.
func out(n *messages.NodeStatus) bool {
	s := n.GetMember().GetState()
	return s == messages.MemberState_MEMBER_STATE_LOST || s == messages.MemberState_MEMBER_STATE_LEFT
}
