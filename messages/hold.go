package messages

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Held reports whether an operator's command holds the deployment, so that the planner leaves it as it is.
// A hold that has a time ends with EndHolds, which the planner stores then, and not by itself.
func (s *DeploymentSpec) Held() bool {
	return s.GetHeldBy() != nil || s.GetLevel() != Level_LEVEL_UNSPECIFIED || len(s.GetReplicaLevels()) > 0 ||
		len(s.GetPreemptions()) > 0
}

// HeldByText returns what holds the deployment: "models.scale by admin"; empty: nothing. Levels and
// preemptions that an earlier version stored have no author.
func (s *DeploymentSpec) HeldByText() string {
	switch {
	case s.GetHeldBy() != nil:
		return s.GetHeldBy().Text()
	case s.GetLevel() != Level_LEVEL_UNSPECIFIED || len(s.GetReplicaLevels()) > 0:
		return "a level that an operator set"
	case len(s.GetPreemptions()) > 0:
		return "replicas.preempt"
	}
	return ""
}

// unknownCaller is the author of a command whose sender NATS did not name.
const unknownCaller = "unknown"

// Text returns the hold as text: "models.scale by admin until 2026-01-02T15:04:05Z".
func (h *Hold) Text() string {
	text := h.GetWhat()
	if h.GetWho() != "" && h.GetWho() != unknownCaller {
		text += " by " + h.GetWho()
	}
	if h.GetUntil() != nil {
		text += fmt.Sprintf(" until %s", h.GetUntil().AsTime().Format("2006-01-02T15:04:05Z"))
	}
	return text
}

// Release returns a copy of the deployment that nothing holds. What an operator took away comes back:
// preempted replicas, and those on standby or parked.
func (s *DeploymentSpec) Release() *DeploymentSpec {
	s = proto.CloneOf(s)
	s.EndHolds()
	return s
}

// EndHolds removes all that holds the deployment, as Release does.
func (s *DeploymentSpec) EndHolds() {
	s.HeldBy, s.Level, s.ReplicaLevels, s.Preemptions = nil, Level_LEVEL_UNSPECIFIED, nil, nil
}

// SetHold sets what holds the deployment. One without replicas, levels and preemptions is not held: requests wake it,
// and the planner must be free to give it replicas.
func (s *DeploymentSpec) SetHold(hold *Hold) {
	if s.HeldBy = nil; s.GetReplicas() > 0 || s.Held() {
		s.HeldBy = hold
	}
}

// EndHold removes the hold if no level and no preemption needs it.
func (s *DeploymentSpec) EndHold() {
	hold := s.HeldBy
	if s.HeldBy = nil; s.Held() {
		s.HeldBy = hold
	}
}
