package kv

import (
	"fmt"
	"slices"
)

// RestorePolicy selects when blocks are restored instead of recomputed.
type RestorePolicy string

const (
	// RestoreAuto restores blocks if RestoreCost finds that faster than recomputing them.
	RestoreAuto RestorePolicy = "auto"
	// RestoreAlways restores all blocks that a lower tier or another node has.
	RestoreAlways RestorePolicy = "always"
)

// RestorePolicies returns the values that ParseRestorePolicy accepts. The first is the default.
func RestorePolicies() []RestorePolicy { return []RestorePolicy{RestoreAuto, RestoreAlways} }

// ParseRestorePolicy returns the policy with a name.
func ParseRestorePolicy(name string) (RestorePolicy, error) {
	if p := RestorePolicy(name); slices.Contains(RestorePolicies(), p) {
		return p, nil
	}
	return "", fmt.Errorf("unknown restore policy %q; use one of %v", name, RestorePolicies())
}
