package control

import (
	"fmt"
	"regexp"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

var validName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// mostReplicas is how many replicas a deployment may have.
const mostReplicas = 1000

// Normalize checks a deployment and fills in defaults.
func Normalize(spec *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
	if spec == nil {
		return nil, fmt.Errorf(`deployment is missing; send {"deployment": {"name": "…", "path": "…"}}`)
	}
	s := proto.Clone(spec).(*messages.DeploymentSpec)
	if !validName.MatchString(s.GetName()) {
		return nil, fmt.Errorf(
			"deployment.name %q: letters, digits, '.', '_' and '-' are allowed, 63 at most, a letter or digit first",
			s.GetName())
	}
	if s.GetPath() == "" {
		return nil, fmt.Errorf("deployment.path is missing: the model's folder on the node")
	}
	if s.Priority == messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED {
		s.Priority = messages.PriorityClass_PRIORITY_CLASS_STANDARD
	}
	if s.Replicas == 0 {
		s.Replicas = max(1, s.MinReplicas)
	}
	for _, f := range []struct {
		name           string
		value          *uint32
		byDefault, max uint32
	}{
		{"max_sequences", &s.MaxSequences, 64, 4096},
		{"max_waiting", &s.MaxWaiting, 1024, 1 << 20},
		{"step_tokens", &s.StepTokens, 512, 1 << 17},
		{"block_tokens", &s.BlockTokens, 16, 1024},
		{"kv_blocks", &s.KvBlocks, 0, 1 << 30},
		{"adapter_pages", &s.AdapterPages, 0, 1 << 20},
		{"max_adapters", &s.MaxAdapters, 0, 1 << 12},
		{"max_adapter_rank", &s.MaxAdapterRank, 0, 256},
		{"replicas", &s.Replicas, 1, mostReplicas},
		{"min_replicas", &s.MinReplicas, s.Replicas, mostReplicas},
		{"max_replicas", &s.MaxReplicas, s.Replicas, mostReplicas},
	} {
		if *f.value == 0 {
			*f.value = f.byDefault
		}
		if *f.value > f.max {
			return nil, fmt.Errorf("deployment.%s is %d; at most %d is allowed", f.name, *f.value, f.max)
		}
	}
	if err := inBounds(s); err != nil {
		return nil, err
	}
	return s, nil
}

func inBounds(s *messages.DeploymentSpec) error {
	if s.MinReplicas > s.Replicas || s.Replicas > s.MaxReplicas {
		return fmt.Errorf("deployment %s: replicas is %d, and must be within min_replicas %d and max_replicas %d; deploy it with other bounds, or stay within them",
			s.Name, s.Replicas, s.MinReplicas, s.MaxReplicas)
	}
	return nil
}

// Scaled returns the deployment with that many replicas. Where min_replicas and max_replicas leave a choice they hold, and
// else they follow.
func Scaled(spec *messages.DeploymentSpec, replicas uint32) (*messages.DeploymentSpec, error) {
	if replicas == 0 {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, `replicas is missing or 0; send {"name": "…", "replicas": 2}, or delete the model`)
	}
	s := proto.Clone(spec).(*messages.DeploymentSpec)
	if s.MinReplicas == s.MaxReplicas {
		s.MinReplicas, s.MaxReplicas = replicas, replicas
	}
	s.Replicas = replicas
	s, err := Normalize(s)
	if err != nil {
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT, err.Error())
	}
	return s, nil
}
