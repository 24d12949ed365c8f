package control

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	core "troupe/core/backend"
	"troupe/messages"
)

// maxSLO is the longest time of an SLO.
const maxSLO = time.Hour

// checkPriority checks the priority of a deployment, and the class and the SLO that go with it.
func checkPriority(s *messages.DeploymentSpec) error {
	if _, known := messages.Priority_name[int32(s.GetPriority())]; !known {
		return fmt.Errorf("deployment.priority is %d; send critical, high, standard or batch", s.GetPriority())
	}
	least, most := messages.PriorityClass_PRIORITY_CLASS_BATCH, messages.PriorityClass_PRIORITY_CLASS_INTERACTIVE
	if class := s.GetDefaultClass(); s.DefaultClass != nil && (class < least || class > most) {
		return fmt.Errorf("deployment.default_class is %d; send batch, standard or interactive, or leave it out for "+
			"that of the priority", class)
	}
	return checkSLO(s)
}

// checkSLO checks the SLO. One without times is left out.
func checkSLO(s *messages.DeploymentSpec) error {
	for _, f := range []struct {
		name string
		time *durationpb.Duration
	}{{"ttft", s.GetSlo().GetTtft()}, {"tpot", s.GetSlo().GetTpot()}} {
		if d := f.time.AsDuration(); f.time != nil && (d <= 0 || d > maxSLO) {
			return fmt.Errorf(`deployment.slo.%s is %s; send a time such as "200ms", %s at most, or leave it out`,
				f.name, d, maxSLO)
		}
	}
	if s.GetSlo().GetTtft() == nil && s.GetSlo().GetTpot() == nil {
		s.Slo = nil
	}
	if s.Slo != nil && s.GetPriority() == messages.Priority_PRIORITY_BATCH {
		return fmt.Errorf("deployment.slo is %s, but deployments of priority batch have no SLO; set slo to null, or "+
			"another priority", sloText(s.Slo))
	}
	return nil
}

// checkTensorParallel refuses to divide a model among devices if its backend cannot.
func checkTensorParallel(s *messages.DeploymentSpec) error {
	engine := core.SpecOf(s.GetEngine().GetKind(), s.GetEngine().GetWithout())
	if most := engine.Kind.MaxDevices(); int(s.GetTensorParallel()) > most {
		return fmt.Errorf("deployment.tensor_parallel is %d, but the %s backend cannot divide a replica among "+
			"devices; set it to %d", s.GetTensorParallel(), engine.Kind.OrNative(), most)
	}
	return nil
}

// sloText formats an SLO as "ttft 200ms, tpot 30ms".
func sloText(s *messages.Slo) string {
	var parts []string
	if s.GetTtft() != nil {
		parts = append(parts, "ttft "+s.GetTtft().AsDuration().String())
	}
	if s.GetTpot() != nil {
		parts = append(parts, "tpot "+s.GetTpot().AsDuration().String())
	}
	return strings.Join(parts, ", ")
}
