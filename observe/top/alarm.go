package top

import (
	"strings"

	"troupe/messages"
)

// alarm returns a line with the reason why the store refuses changes, or nothing.
func (m Model) alarm() []string {
	s := m.now.Store
	if s == nil {
		return nil
	}
	reason := strings.ReplaceAll(strings.TrimPrefix(s.GetReason().String(), "REASON_"), "_", " ")
	return []string{
		styles[critical].Render(reason + "; changes refused: " + strings.ReplaceAll(s.GetDetail(), "\n", " ")),
	}
}

// hasLeft reports whether a node has left the cluster, or was lost. It is still shown for a while.
func hasLeft(n *messages.NodeStatus) bool {
	s := n.GetMember().GetState()
	return s == messages.MemberState_MEMBER_STATE_LOST || s == messages.MemberState_MEMBER_STATE_LEFT
}
