package backend

import (
	"context"
	"errors"
	"fmt"

	"troupe/cluster/store"
	"troupe/modelfile/digest"
)

// ScaleAtRevision stores the number of replicas of a deployment. It returns store.ErrConflict if
// the deployment is no longer at the given revision.
func (d *DeploymentControl) ScaleAtRevision(ctx context.Context, name string, revision uint64, replicas uint32,
	why string) error {
	stored, at, err := d.Store.Get(ctx, name)
	if err != nil {
		return err
	}
	if at != revision {
		return fmt.Errorf("deployment %s: %w", name, store.ErrConflict)
	}
	before := stored.GetReplicas()
	stored.Replicas, stored.AskedRevision = new(replicas), 0
	if _, err := d.Store.Put(ctx, stored, revision); err != nil {
		return err
	}
	d.Publish("model.scaled", name, fmt.Sprintf("from %d to %d replicas: %s", before, replicas, why))
	return nil
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
