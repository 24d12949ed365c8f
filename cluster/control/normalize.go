package control

import (
	"fmt"
	"regexp"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Normalize checks a deployment and fills in defaults.
func Normalize(spec *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
	if spec == nil {
		return nil, fmt.Errorf(`deployment is missing; send {"deployment": {"name": "…", "path": "…"}}`)
	}
	s := proto.Clone(spec).(*messages.DeploymentSpec)
	if !validName.MatchString(s.GetName()) {
		return nil, fmt.Errorf("deployment.name %q: lower-case letters, digits, '.', '_' and '-' are allowed, 63 at most, a letter or digit first", s.GetName())
	}
	if s.GetPath() == "" {
		return nil, fmt.Errorf("deployment.path is missing: the model's folder on the node")
	}
	if s.Priority == messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED {
		s.Priority = messages.PriorityClass_PRIORITY_CLASS_STANDARD
	}
	for _, f := range []struct {
		name           string
		value          *uint32
		byDefault, max uint32
	}{
		{"replicas", &s.Replicas, 1, 1000},
		{"max_sequences", &s.MaxSequences, 64, 4096},
		{"max_waiting", &s.MaxWaiting, 1024, 1 << 20},
		{"step_tokens", &s.StepTokens, 512, 1 << 17},
		{"block_tokens", &s.BlockTokens, 16, 1024},
		{"kv_blocks", &s.KvBlocks, 0, 1 << 30},
	} {
		if *f.value == 0 {
			*f.value = f.byDefault
		}
		if *f.value > f.max {
			return nil, fmt.Errorf("deployment.%s is %d; at most %d is allowed", f.name, *f.value, f.max)
		}
	}
	return s, nil
}
