package backend

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/messages"
)

// Stored implements control.Backend.
func (d *DeploymentControl) Stored(ctx context.Context, name string) (*messages.DeploymentSpec, error) {
	stored, _, err := d.Store.Get(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return stored, err
}

// Update implements control.Backend. It stores an absolute path, so that the path has the same
// meaning after a restart.
func (d *DeploymentControl) Update(ctx context.Context, name string, ifRevision uint64,
	change control.Change) (done control.Updated, err error) {
	for {
		stored, at, err := d.Store.Get(ctx, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			stored, at = nil, 0
		case err != nil && at == 0:
			return done, err
		case err != nil:
			d.Log.Warn().Err(err).Str("model", name).Msg("cannot read stored deployment; replacing it")
			stored = nil
		}
		if ifRevision != 0 && ifRevision != at &&
			ifRevision != stored.GetAskedRevision() { // otherwise only digests were added
			return done, control.Refuse(messages.Reason_REASON_CONFLICT,
				fmt.Sprintf("deployment %s is at revision %d, not %d; read it again", name, at, ifRevision))
		}
		spec, err := change(stored)
		if err != nil {
			return done, err
		}
		spec.AskedRevision = 0
		if spec.Path, err = filepath.Abs(spec.GetPath()); err != nil {
			return done, err
		}
		if err := d.checkNameFree(spec.GetName()); err != nil {
			return done, err
		}
		revision, err := d.Store.Put(ctx, spec, at)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return done, err
		}
		done = control.Updated{Before: stored, After: spec, Revision: revision}
		d.publishChange(done)
		return done, nil
	}
}

// checkNameFree returns an error if an adapter has the name.
func (d *DeploymentControl) checkNameFree(name string) error {
	for _, a := range d.Catalogue.All("") {
		if a.GetName() == name {
			return control.Refuse(messages.Reason_REASON_ALREADY_EXISTS, fmt.Sprintf(
				"%s is the name of an adapter of model %s; give the deployment another name", name, a.GetModel()))
		}
	}
	return nil
}

// publishChange publishes a change: model.scaled if only numbers of replicas changed, and
// model.deployed otherwise.
func (d *DeploymentControl) publishChange(done control.Updated) {
	kind, changes := "model.scaled", control.Changes(done.Before, done.After)
	for _, c := range changes {
		switch c.GetField() {
		case "replicas", "min_replicas", "max_replicas", "drop_weights", "preemptions", "held_by":
		default:
			kind = "model.deployed"
		}
	}
	if done.Before == nil || changes == nil {
		kind = "model.deployed"
	}
	d.Publish(kind, done.After.GetName(),
		fmt.Sprintf("revision %d: %s", done.Revision, control.ChangesText(changes)))
}
