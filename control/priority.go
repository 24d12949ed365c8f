package control

import (
	"fmt"

	"troupe/messages"
)

// checkPriority checks the priority of a deployment and what depends on it.
func checkPriority(s *messages.DeploymentSpec) error {
	if _, known := messages.Priority_name[int32(s.GetPriority())]; !known {
		return fmt.Errorf("deployment.priority is %d; send critical, high, standard or batch", s.GetPriority())
	}
	return nil
}
