// Package apply applies the deployments and adapters of a node's configuration to the store, unless
// they were applied before.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/control"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/chat"
)

// Models stores deployments.
type Models interface {
	// Update and Revise are described in control.DeploymentBackend.
	Update(ctx context.Context, name string, ifRevision uint64, change control.Change) (control.Updated, error)
	Revise(spec, stored *messages.DeploymentSpec)
}

// Registry stores adapters.
type Registry interface {
	// Check checks an adapter and fills in the fields that come from its files.
	Check(ctx context.Context, req *messages.RegisterAdapterRequest) (*messages.AdapterSpec, error)
	// Register stores an adapter and the digest of its entry in the configuration.
	Register(ctx context.Context, req *messages.RegisterAdapterRequest, applied string) (*messages.AdapterSpec, error)
}

// Store reads stored adapters.
type Store interface {
	Adapter(ctx context.Context, model, name string) (*messages.AdapterSpec, uint64, error)
}

// Configuration is the part of a node's configuration that concerns models and adapters.
type Configuration struct {
	Deployments []*messages.DeploymentSpec
	Adapters    []*messages.RegisterAdapterRequest
	Roots       modelfile.Roots
	Models      Models
	Registry    Registry
	Store       Store
	Log         zerolog.Logger
}

// ApplyDeployments applies the deployments of the configuration.
func (c Configuration) ApplyDeployments(ctx context.Context) error {
	for _, spec := range c.Deployments {
		if err := c.apply(ctx, spec); err != nil {
			return fmt.Errorf("deployment %s of the configuration: %w", spec.GetName(), err)
		}
	}
	return nil
}

// apply stores a deployment of the configuration if none is stored, or if it differs from the one
// that this node or another applied last. In these cases it replaces all fields: those that the
// configuration does not set get their defaults. Otherwise it keeps the stored deployment, so that
// a restart does not undo later changes, such as a scale.
func (c Configuration) apply(ctx context.Context, given *messages.DeploymentSpec) error {
	spec, err := control.Normalize(given)
	if err != nil {
		return err
	}
	if spec.Path, err = filepath.Abs(spec.GetPath()); err != nil {
		return err
	}
	given = proto.CloneOf(given)
	given.Path, given.Applied = spec.GetPath(), ""
	if spec.Applied, err = appliedDigest(given); err != nil {
		return err
	}
	former, err := formerDigest(given)
	if err != nil {
		return err
	}
	replace := func(stored *messages.DeploymentSpec) (*messages.DeploymentSpec, error) {
		if applied := stored.GetApplied(); stored != nil && (applied == spec.GetApplied() || applied == former) {
			return nil, errApplied
		}
		if err := c.Roots.Check(spec.GetPath()); err != nil {
			return nil, err
		}
		if err := chat.Try(c.Roots, spec.GetPath()); err != nil {
			return nil, err
		}
		next := proto.CloneOf(spec)
		next.Assignments = stored.GetAssignments() // only the planner changes what runs where
		c.Models.Revise(next, stored)
		return next, nil
	}
	done, err := c.Models.Update(ctx, spec.GetName(), 0, replace)
	if err == nil && done.Before != nil {
		c.Log.Info().
			Str("model", spec.GetName()).
			Str("changes", control.ChangesText(control.Changes(done.Before, done.After))).
			Msg("configuration changed since last apply; applied")
	}
	if errors.Is(err, errApplied) {
		return nil
	}
	return err
}

// errApplied ends an update if the deployment is already applied.
var errApplied = errors.New("already applied")

// ApplyAdapters registers the adapters of the configuration.
func (c Configuration) ApplyAdapters(ctx context.Context) error {
	for _, req := range c.Adapters {
		if err := c.applyAdapter(ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// applyAdapter registers an adapter of the configuration if it is not registered, if it differs
// from the one applied last, or if its files have changed. If the files of a registered adapter can
// no longer be read, applyAdapter logs the error and keeps the stored adapter.
func (c Configuration) applyAdapter(ctx context.Context, given *messages.RegisterAdapterRequest) error {
	named, err := control.NormalizeAdapter(given.GetAdapter())
	if err != nil {
		return err
	}
	req := proto.CloneOf(given)
	if req.Adapter.Path, err = filepath.Abs(named.GetPath()); err != nil {
		return err
	}
	applied, err := appliedDigest(req)
	if err != nil {
		return err
	}
	stored, _, unknown := c.Store.Adapter(ctx, named.GetModel(), named.GetName())
	if unknown == nil && stored.GetApplied() == applied {
		req.Adapter, req.AnyBase = stored, true
	}
	spec, err := c.Registry.Check(ctx, req)
	switch {
	case err != nil && unknown != nil:
		return err
	case err != nil:
		c.Log.Error().Err(err).Msg("configured adapter rejected; keeping the stored one")
		return nil
	case unknown == nil:
		spec.BaseDigest = stored.GetBaseDigest() // new weights of the base do not change the adapter
		spec.Revision, spec.Registered, spec.Applied = stored.GetRevision(), stored.GetRegistered(), applied
		if proto.Equal(stored, spec) {
			return nil
		}
	}
	_, err = c.Registry.Register(ctx, req, applied)
	return err
}

// formerDigest returns the digest that a version without priorities has given the same entry: there, the
// priority was a class.
func formerDigest(given *messages.DeploymentSpec) (string, error) {
	former := proto.CloneOf(given)
	if former.Priority != nil && former.DefaultClass == nil {
		former.DefaultClass, former.Priority = former.GetPriority().FormerClass().Enum(), nil
	}
	return appliedDigest(former)
}

// appliedDigest returns the digest of a request as given. It leaves out defaults, which may change
// between versions.
func appliedDigest(given proto.Message) (string, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(given)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}
