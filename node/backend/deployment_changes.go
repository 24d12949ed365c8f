package backend

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// ScaleAtRevision stores the number of replicas of a deployment. It returns store.ErrConflict if
// the deployment is no longer at the given revision.
func (d *DeploymentControl) ScaleAtRevision(ctx context.Context, name string, revision uint64, replicas uint32,
	why string) error {
	var before uint32
	err := d.changeAtRevision(ctx, name, revision, func(stored *messages.DeploymentSpec) {
		before = stored.GetReplicas()
		stored.Replicas = new(replicas)
	})
	if err == nil {
		d.Publish("model.scaled", name, fmt.Sprintf("from %d to %d replicas: %s", before, replicas, why))
	}
	return err
}

// WakeAtRevision stores the number of replicas of a deployment and their level, and no levels of single
// ones, when requests wake it or were waiting in vain. It returns store.ErrConflict if the deployment is
// no longer at the given revision.
func (d *DeploymentControl) WakeAtRevision(ctx context.Context, name string, revision uint64, replicas uint32,
	level messages.Level, why string) error {
	var before, after *messages.DeploymentSpec
	err := d.changeAtRevision(ctx, name, revision, func(stored *messages.DeploymentSpec) {
		before = proto.CloneOf(stored)
		if stored.GetReplicas() == 0 {
			stored.Preemptions = nil
		}
		stored.Replicas, stored.Level, stored.ReplicaLevels = new(replicas), level, nil
		stored.EndHold()
		after = stored
	})
	if err == nil {
		d.Publish("model.scaled", name, control.ChangesText(control.Changes(before, after))+": "+why)
	}
	return err
}

// changeAtRevision changes a stored deployment if it still has a revision.
func (d *DeploymentControl) changeAtRevision(ctx context.Context, name string, revision uint64,
	change func(*messages.DeploymentSpec)) error {
	stored, at, err := d.Store.Get(ctx, name)
	switch {
	case err != nil:
		return err
	case at != revision:
		return fmt.Errorf("deployment %s: %w", name, store.ErrConflict)
	}
	change(stored)
	stored.AskedRevision = 0
	_, err = d.Store.Put(ctx, stored, revision)
	return err
}

// RecordDigests stores the digests that the first replica of a deployment found. It does nothing if
// digests are already stored or if the deployment was deployed again.
func (d *DeploymentControl) RecordDigests(ctx context.Context, name string, deploy uint64,
	weights, revision string) error {
	for {
		spec, at, err := d.Store.Get(ctx, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case spec.GetDeploy() != deploy || spec.GetRevisionDigest() != "":
			return nil
		}
		spec.WeightsDigest, spec.RevisionDigest, spec.AskedRevision = weights, revision, at
		if _, err = d.Store.Put(ctx, spec, at); errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			d.Publish("model.identified", name,
				fmt.Sprintf("revision %s, weights %s", digest.Short(revision), digest.Short(weights)))
		}
		return err
	}
}
