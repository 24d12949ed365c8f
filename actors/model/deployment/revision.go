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

// All replicas of a revision serve the same files: those that the first of them has found. Its digests are stored, by
// compare-and-set, before it may serve; a replica that has found other files does not serve. See core/schedule.Judge.

const (
	recordTimeout = 5 * time.Second  // how long storing digests may take
	finishTimeout = 10 * time.Minute // how long a replica drains whose sequences no other replica may go on with
)

// recorded is a note to self.
type recorded struct {
	incarnation uint64
	err         error
}

// wanted is the revision that is asked for.
func (d *deployment) wantedRevision() schedule.Revision {
	return schedule.Revision{Digest: d.spec.GetRevisionDigest(), Deploy: d.spec.GetDeploy()}
}

// files is the revision that a replica has.
func (r *replicaState) revision() schedule.Revision {
	return schedule.Revision{Digest: r.status.GetRevisionDigest(), Deploy: r.spec.GetDeploy()}
}

// current reports whether a replica is as they are asked for.
func (d *deployment) current(r *replicaState) bool {
	want := d.replicaSpec(r.spec.GetName())
	want.Node, want.Gpu = r.spec.GetNode(), r.spec.GetGpu()
	want.Priority = r.spec.GetPriority() // not worth a restart
	want.RevisionDigest, want.Deploy = r.spec.GetRevisionDigest(), r.spec.GetDeploy()
	is := r.spec
	if is.GetMaxAdapters() == 0 || is.GetMaxAdapterRank() == 0 { // a node of an earlier version started it
		is = proto.CloneOf(is)
		is.MaxAdapters = cmp.Or(is.GetMaxAdapters(), messages.DefaultAdapters)
		is.MaxAdapterRank = cmp.Or(is.GetMaxAdapterRank(), messages.DefaultAdapterRank)
	}
	return proto.Equal(want, is) && d.wantedRevision().Same(r.revision())
}

// judge looks at the files that a replica has found.
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

// weightsDiffer is why a replica does not serve that has found other files.
func (d *deployment) weightsDiffer(r *replicaState, found string) *messages.Refused {
	return &messages.Refused{
		Reason: messages.Reason_REASON_WEIGHTS_DIFFER,
		Detail: "replica " + r.spec.GetName() + " found the files of revision " + digest.Short(found) + " in " +
			r.spec.GetPath() + " of node " +
			r.spec.GetNode() + ", and revision " + digest.Short(d.spec.GetRevisionDigest()) +
			" is deployed; run models.deploy to roll to the new files, or put the old files back",
	}
}

// record stores the digests of the first replica. The group brings what is stored back.
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

// onRecorded: replicas report again every second until they may serve, so that what failed is tried again.
func (d *deployment) onRecorded(msg *recorded) {
	if msg.incarnation != d.incarnation {
		return
	}
	if d.recording = false; msg.err != nil {
		d.Log.Warn().Err(msg.err).Str("model", d.Name).Msg("digests of the weights not stored; trying again")
	}
}

// alone reports whether no replica that serves may go on with the sequences of one that drains, though
// there are others.
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

// sameFiles reports whether sequences may move from one replica to the other, as far as is known.
func sameFiles(a, b *replicaState) bool {
	x, y := a.status.GetRevisionDigest(), b.status.GetRevisionDigest()
	return x == "" || y == "" || x == y
}
