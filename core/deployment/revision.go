package deployment

import (
	"time"

	"troupe/core/schedule"
)

// All replicas of a revision serve the same files: those that the first replica found. That replica
// may serve only after its digests are stored by compare-and-set. A replica that found other files
// does not serve. See core/schedule.Judge.

// checkRevision compares the files that a starting replica found with the wanted revision.
func (d *Deployment) checkRevision(r *replica, now time.Time) {
	if d.state != Active || r.phase != Starting && r.phase != Loading {
		return
	}
	found := r.last()
	switch schedule.Judge(d.spec.Revision, r.revision()) {
	case schedule.Record:
		if !d.recording {
			d.recording = true
			d.emit(Record{d.spec.Revision.Deploy, found.Weights, found.Revision})
		}
	case schedule.Confirm:
		if found.State == ReplicaLoading {
			d.emit(ConfirmRevision{r.actor, d.spec.Revision.Digest})
		}
	case schedule.Reject:
		d.onFailed(r, d.weightsDiffer(r, found.Revision), now)
	}
}

// foundStaleLease stops a replica that found the files of an earlier deployment in the lease of a replica that
// exited, and reports whether it did. That is no failure: its lease is released, and another replica loads the
// current files.
func (d *Deployment) foundStaleLease(r *replica, now time.Time) bool {
	name := r.spec.Name
	if at, left := d.lastPlacement[name]; !left || at != r.spec.At || !d.fire(r, failed, none, now) {
		return false
	}
	delete(d.lastPlacement, name)
	return true
}

// weightsDiffer returns the failure of a replica that found other files.
func (d *Deployment) weightsDiffer(r *replica, found string) *Failure {
	return &Failure{
		Reason: FilesDiffer,
		Detail: "replica " + r.spec.Name + " found the files of revision " + short(found) + " in " + r.spec.Path +
			" on node " + r.spec.At.Node + ", but revision " + short(d.spec.Revision.Digest) +
			" is deployed; run models.deploy to roll to the new files, or put the old files back",
	}
}

// short shortens a digest for use in messages.
func short(digest string) string { return digest[:min(len(digest), 12)] }
