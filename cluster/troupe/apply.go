package troupe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/control"
	"troupe/messages"
)

// applyDeployments applies the deployments of the configuration.
func (n *Node) applyDeployments(ctx context.Context) error {
	for _, spec := range n.cfg.Deployments {
		if err := n.apply(ctx, spec); err != nil {
			return fmt.Errorf("deployment %s of the configuration: %w", spec.GetName(), err)
		}
	}
	return nil
}

// apply stores a deployment of the configuration where it is not stored, or says other than what was applied last, here or by
// another node. Else it stays as it is: it may have been scaled or deployed anew since, and a restart undoes nothing.
func (n *Node) apply(ctx context.Context, said *messages.DeploymentSpec) error {
	spec, err := control.Normalize(said)
	if err != nil {
		return err
	}
	if spec.Path, err = filepath.Abs(spec.GetPath()); err != nil {
		return err
	}
	if spec.Applied, err = digest(said, spec.GetPath()); err != nil {
		return err
	}
	stored, _, err := n.store.Get(ctx, spec.GetName())
	if err == nil && stored.GetApplied() == spec.GetApplied() {
		return nil
	}
	if err == nil {
		n.cfg.Log.Info().Str("model", spec.GetName()).Msg("the configuration says other than what was applied last; applied")
	}
	_, err = n.put(ctx, spec, 0)
	return err
}

// digest is of what was said: defaults, which may change from one version to the next, are not part of it.
func digest(said *messages.DeploymentSpec, path string) (string, error) {
	said = proto.CloneOf(said)
	said.Path, said.Applied = path, ""
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(said)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}
