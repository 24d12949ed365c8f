package backend

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"troupe/actors/planner"
	"troupe/cluster/store"
	"troupe/control"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// AssignAtRevision stores the replicas of a deployment, without what held it if the time of its hold has passed.
// It publishes that, and which replicas are new or withdrawn. It returns the new revision, or
// planner.ErrConflict if the deployment is no longer at the revision that was planned.
func (d *DeploymentControl) AssignAtRevision(ctx context.Context, a planner.Assigned) (revision uint64, err error) {
	var before uint32
	hold := ""
	revision, err = d.changeAtRevision(ctx, a.Name, a.Revision, func(stored *messages.DeploymentSpec) {
		if before = stored.GetReplicas(); a.Released != "" {
			hold = stored.HeldByText()
			stored.EndHolds()
		}
		stored.Replicas, stored.Assignments = new(a.Replicas), a.Assignments
	})
	switch {
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return 0, fmt.Errorf("%w: %w", planner.ErrConflict, err)
	case err != nil:
		return 0, err
	}
	if hold != "" {
		d.Publish("model.released", a.Name, "its hold has ended: "+hold)
	}
	why := ""
	for _, c := range a.Changes {
		kind := "replica.assigned"
		if c.Withdrawn {
			kind = "replica.withdrawn"
		}
		if why == "" {
			why = ": " + c.Why
		}
		d.Publish(kind, c.Replica, c.Why)
	}
	if before != a.Replicas {
		d.Publish("model.scaled", a.Name, fmt.Sprintf("from %d to %d replicas%s", before, a.Replicas, why))
	}
	return revision, nil
}

// StoreLevel stores the level of a deployment, and no levels of single replicas, when requests wake it or were
// waiting in vain. It returns store.ErrConflict if the deployment is no longer at the given revision.
func (d *DeploymentControl) StoreLevel(ctx context.Context, name string, revision uint64, level messages.Level,
	why string) error {
	var before, after *messages.DeploymentSpec
	_, err := d.changeAtRevision(ctx, name, revision, func(stored *messages.DeploymentSpec) {
		before = proto.CloneOf(stored)
		if stored.GetReplicas() == 0 {
			stored.Preemptions = nil
		}
		stored.Level, stored.ReplicaLevels = level, nil
		stored.EndHold()
		after = stored
	})
	if err == nil {
		d.Publish("model.scaled", name, control.ChangesText(control.Changes(before, after))+": "+why)
	}
	return err
}

// changeAtRevision changes a stored deployment if it still has a revision, and returns the new one.
func (d *DeploymentControl) changeAtRevision(ctx context.Context, name string, revision uint64,
	change func(*messages.DeploymentSpec)) (uint64, error) {
	stored, at, err := d.Store.Get(ctx, name)
	switch {
	case err != nil:
		return 0, err
	case at != revision:
		return 0, fmt.Errorf("deployment %s: %w", name, store.ErrConflict)
	}
	change(stored)
	stored.AskedRevision = 0
	return d.Store.Put(ctx, stored, revision)
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
