package control

import (
	"fmt"
	"regexp"

	core "troupe/core/backend"
	"troupe/messages"
)

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// maxReplicas is the largest number of replicas of a deployment.
const maxReplicas = 1000

// maxTensorParallel is the largest number of devices of a replica.
const maxTensorParallel = 64

// maxIdleAfter is the longest time without a request before a deployment goes to sleep: 30 days.
const maxIdleAfter = 30 * 24 * 60 * 60

// maxWakeWait is the longest time in which requests that wake a deployment are gathered: a day.
const maxWakeWait = 24 * 60 * 60

// Normalize checks a deployment and fills in defaults.
func Normalize(spec *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
	if spec == nil {
		return nil, fmt.Errorf(`deployment is missing; send {"deployment": {"name": "…", "path": "…"}}`)
	}
	s := spec.Complete()
	if !namePattern.MatchString(s.GetName()) {
		return nil, fmt.Errorf(
			"deployment.name %q: letters, digits, '.', '_' and '-' are allowed, 63 at most, a letter or digit first",
			s.GetName())
	}
	if s.GetPath() == "" {
		return nil, fmt.Errorf("deployment.path is missing: the model's folder on the node")
	}
	if err := checkPriority(s); err != nil {
		return nil, err
	}
	if err := normalizeEngine(s); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name              string
		value, least, max uint32
	}{
		{"max_sequences", s.GetMaxSequences(), 1, 4096},
		{"max_waiting", s.GetMaxWaiting(), 0, 1 << 20},
		{"step_tokens", s.GetStepTokens(), 1, 1 << 17},
		{"block_tokens", s.GetBlockTokens(), 1, 1024},
		{"kv_blocks", s.GetKvBlocks(), 0, 1 << 30},
		{"adapter_pages", s.GetAdapterPages(), 0, 1 << 20},
		{"max_adapters", s.GetMaxAdapters(), 1, 1 << 12},
		{"max_adapter_rank", s.GetMaxAdapterRank(), 1, 256},
		{"replicas", s.GetReplicas(), 0, maxReplicas},
		{"min_replicas", s.GetMinReplicas(), 0, maxReplicas},
		{"max_replicas", s.GetMaxReplicas(), 0, maxReplicas},
		{"idle_after", s.GetIdleAfter(), 0, maxIdleAfter},
		{"wake_wait", s.GetWakeWait(), 0, maxWakeWait},
		{"tensor_parallel", s.GetTensorParallel(), 1, maxTensorParallel},
	} {
		if f.value > f.max {
			return nil, fmt.Errorf("deployment.%s is %d; at most %d is allowed", f.name, f.value, f.max)
		}
		if f.value < f.least {
			return nil, fmt.Errorf(
				"deployment.%s is %d; at least %d is needed; "+
					"leave it out to keep its value, or send null for the default",
				f.name,
				f.value,
				f.least,
			)
		}
	}
	if err := checkTensorParallel(s); err != nil {
		return nil, err
	}
	return s, checkBounds(s)
}

// normalizeEngine checks the engine. The native one is left out.
func normalizeEngine(s *messages.DeploymentSpec) error {
	engine, err := core.ParseSpec(s.GetEngine().GetKind(), s.GetEngine().GetWithout())
	if err != nil {
		return fmt.Errorf("deployment.%w", err)
	}
	if s.Engine = nil; engine.Kind != core.Native {
		s.Engine = &messages.EngineSpec{Kind: string(engine.Kind), Without: engine.Without.Names()}
	}
	return nil
}

// checkBounds checks replicas, min_replicas, max_replicas, idle_after and wake_wait. A model without replicas,
// asleep or stopped, keeps its bounds.
func checkBounds(s *messages.DeploymentSpec) error {
	replicas, low, high := s.GetReplicas(), s.GetMinReplicas(), s.GetMaxReplicas()
	if low > high {
		return fmt.Errorf("deployment %s: min_replicas is %d, more than max_replicas %d", s.GetName(), low, high)
	}
	if replicas != 0 && (replicas < low || replicas > high) {
		return fmt.Errorf(
			"deployment %s: replicas is %d, and must be within min_replicas %d and max_replicas %d; "+
				"deploy it with other bounds, or stay within them",
			s.GetName(),
			replicas,
			low,
			high,
		)
	}
	if s.GetIdleAfter() > 0 && low > 0 {
		return fmt.Errorf("deployment %s: idle_after is %d, but with min_replicas %d it never goes to sleep; "+
			"set min_replicas to 0, or idle_after to null", s.GetName(), s.GetIdleAfter(), low)
	}
	if s.GetWakeWait() > 0 && low > 0 {
		return fmt.Errorf("deployment %s: wake_wait is %d, but with min_replicas %d no request wakes it; "+
			"set min_replicas to 0, or wake_wait to null", s.GetName(), s.GetWakeWait(), low)
	}
	return nil
}
