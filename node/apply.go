package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"troupe/control"
	"troupe/messages"
	"troupe/modelfile/chat"
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
// another node. Then it states the whole: what it does not mention has its default. Else the stored one stays as it is: it may
// have been scaled or changed since, and a restart undoes nothing.
func (n *Node) apply(ctx context.Context, said *messages.DeploymentSpec) error {
	spec, err := control.Normalize(said)
	if err != nil {
		return err
	}
	if spec.Path, err = filepath.Abs(spec.GetPath()); err != nil {
		return err
	}
	said = proto.CloneOf(said)
	said.Path, said.Applied = spec.GetPath(), ""
	if spec.Applied, err = appliedDigest(said); err != nil {
		return err
	}
	done, err := n.Update(
		ctx,
		spec.GetName(),
		0,
		func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
			if stored != nil && stored.GetApplied() == spec.GetApplied() {
				return nil, errApplied
			}
			if err := n.cfg.Roots.Check(spec.GetPath()); err != nil {
				return nil, err
			}
			if err := chat.Try(n.cfg.Roots, spec.GetPath()); err != nil {
				return nil, err
			}
			next := proto.CloneOf(spec)
			n.Revise(next, stored)
			return next, nil
		},
	)
	if err == nil && done.Before != nil {
		n.cfg.Log.Info().
			Str("model", spec.GetName()).
			Str("changes", control.ChangesText(control.Changes(done.Before, done.After))).
			Msg("configuration changed since it was applied last; applied")
	}
	if errors.Is(err, errApplied) {
		return nil
	}
	return err
}

// errApplied ends the application of what is stored already.
var errApplied = errors.New("applied already")

// applyAdapters likewise registers the adapters of the configuration.
func (n *Node) applyAdapters(ctx context.Context) error {
	for _, req := range n.cfg.Adapters {
		if err := n.applyAdapter(ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// applyAdapter registers an adapter where it is not registered, the configuration says other than what was applied last, or its
// files are others. One that is stored already, and can not be read any more, is no reason not to start.
func (n *Node) applyAdapter(ctx context.Context, said *messages.RegisterAdapterRequest) error {
	named, err := control.NormalizeAdapter(said.GetAdapter())
	if err != nil {
		return err
	}
	req := proto.CloneOf(said)
	if req.Adapter.Path, err = filepath.Abs(named.GetPath()); err != nil {
		return err
	}
	applied, err := appliedDigest(req)
	if err != nil {
		return err
	}
	stored, _, unknown := n.store.Adapter(ctx, named.GetModel(), named.GetName())
	if unknown == nil && stored.GetApplied() == applied {
		req.Adapter, req.AnyBase = stored, true
	}
	spec, err := n.checkAdapter(ctx, req)
	switch {
	case err != nil && unknown != nil:
		return err
	case err != nil:
		n.cfg.Log.Error().Err(err).Msg("adapter of the configuration not taken; what was stored of it stays")
		return nil
	case unknown == nil:
		spec.BaseDigest = stored.GetBaseDigest() // other weights of its base do not make it another adapter
		if spec.Revision, spec.Registered, spec.Applied = stored.GetRevision(), stored.GetRegistered(), applied; proto.Equal(
			stored,
			spec,
		) {
			return nil
		}
	}
	_, err = n.register(ctx, req, applied)
	return err
}

// appliedDigest is of what was said: defaults, which may change from one version to the next, are not part of it.
func appliedDigest(said proto.Message) (string, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(said)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}
