package deployment

import (
	"cmp"
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/schedule"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// All replicas of a revision serve the same files: those that the first replica found. Its digests
// are stored by compare-and-set before it may serve. A replica that found other files does not
// serve. See core/schedule.Judge.

const (
	recordTimeout = 5 * time.Second  // to store digests
	finishTimeout = 10 * time.Minute // to drain a replica whose sequences no other replica can resume
)

// recorded is a note to self.
type recorded struct {
	incarnation uint64
	err         error
}

// wantedRevision returns the revision of the spec.
func (d *deployment) wantedRevision() schedule.Revision {
	return schedule.Revision{Digest: d.spec.GetRevisionDigest(), Deploy: d.spec.GetDeploy()}
}

// revision returns the revision that a replica has loaded.
func (r *replicaState) revision() schedule.Revision {
	return schedule.Revision{Digest: r.status.GetRevisionDigest(), Deploy: r.spec.GetDeploy()}
}

// current reports whether a replica matches the spec.
func (d *deployment) current(r *replicaState) bool {
	want := d.replicaSpec(r.spec.GetName())
	want.Node, want.Gpu = r.spec.GetNode(), r.spec.GetGpu()
	want.Priority = r.spec.GetPriority() // a changed priority is not worth a restart
	want.RevisionDigest, want.Deploy = r.spec.GetRevisionDigest(), r.spec.GetDeploy()
	is := r.spec
	if is.GetMaxAdapters() == 0 || is.GetMaxAdapterRank() == 0 { // started by an earlier version
		is = proto.CloneOf(is)
		is.MaxAdapters = cmp.Or(is.GetMaxAdapters(), messages.DefaultAdapters)
		is.MaxAdapterRank = cmp.Or(is.GetMaxAdapterRank(), messages.DefaultAdapterRank)
	}
	return proto.Equal(want, is) && d.wantedRevision().Same(r.revision())
}

// checkRevision compares the files that a replica found with the wanted revision.
func (d *deployment) checkRevision(ctx actor.Context, r *replicaState) {
	if d.spec == nil || d.removing || d.fenced || r.phase != starting && r.phase != loading {
		return
	}
	switch schedule.Judge(d.wantedRevision(), r.revision()) {
	case schedule.Record:
		d.record(ctx, r.status)
	case schedule.Confirm:
		if r.status.GetState() == messages.ReplicaState_REPLICA_STATE_LOADING {
			ctx.Send(r.pid, &messages.ConfirmRevision{RevisionDigest: d.spec.GetRevisionDigest()})
		}
	case schedule.Reject:
		d.onFailed(ctx, r, d.weightsDiffer(r, r.status.GetRevisionDigest()))
	}
}

// weightsDiffer returns the refusal of a replica that found other files.
func (d *deployment) weightsDiffer(r *replicaState, found string) *messages.Refused {
	return &messages.Refused{
		Reason: messages.Reason_REASON_WEIGHTS_DIFFER,
		Detail: "replica " + r.spec.GetName() + " found the files of revision " + digest.Short(found) + " in " +
			r.spec.GetPath() + " on node " + r.spec.GetNode() + ", but revision " +
			digest.Short(d.spec.GetRevisionDigest()) +
			" is deployed; run models.deploy to roll to the new files, or put the old files back",
	}
}

// record starts a job that stores the digests of the first replica. The stored spec comes back
// through the group.
func (d *deployment) record(ctx actor.Context, found *messages.ReplicaStatus) {
	if d.recording || d.Record == nil {
		return
	}
	d.recording = true
	record, name, deploy, incarnation := d.Record, d.Name, d.spec.GetDeploy(), d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := context.WithTimeout(life, recordTimeout)
			defer cancel()
			return struct{}{}, record(c, name, deploy, found.GetWeightsDigest(), found.GetRevisionDigest())
		},
		func(_ struct{}, err error) any { return &recorded{incarnation, err} })
}

// onRecorded ends the job. A failed one is retried: replicas report every second until they may
// serve.
func (d *deployment) onRecorded(msg *recorded) {
	if msg.incarnation != d.incarnation {
		return
	}
	if d.recording = false; msg.err != nil {
		d.Log.Warn().Err(msg.err).Str("model", d.Name).Msg("storing weight digests failed; retrying")
	}
}

// noMigrationTarget reports whether other replicas serve, but none of them can resume the sequences
// of a draining one.
func (d *deployment) noMigrationTarget(r *replicaState) bool {
	others := false
	for _, other := range d.replicas {
		if other == r || !other.serving() {
			continue
		}
		if sameFiles(other, r) {
			return false
		}
		others = true
	}
	return others
}

// sameFiles reports whether sequences can migrate between two replicas, as far as is known.
func sameFiles(a, b *replicaState) bool {
	x, y := a.status.GetRevisionDigest(), b.status.GetRevisionDigest()
	return x == "" || y == "" || x == y
}
