package replica

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// revisionConfirmed reports whether the loaded files are those that the deployment serves: they
// were requested by digest, the deployment has confirmed them, or they have no digest. Until then
// the replica does not serve.
func (r *replica) revisionConfirmed() bool {
	d := r.model.GetRevisionDigest()
	return d == "" || d == r.Spec.GetRevisionDigest() || d == *r.confirmedRevision
}

// onConfirm records the confirmed revision. It also holds for later incarnations, which adopt the
// loaded weights.
func (r *replica) onConfirm(ctx actor.Context, msg *messages.ConfirmRevision) {
	*r.confirmedRevision = msg.GetRevisionDigest()
	if r.ready && !r.stopping && r.state == messages.ReplicaState_REPLICA_STATE_LOADING {
		r.serve(ctx)
	}
}

// serve starts to accept sequences.
func (r *replica) serve(ctx actor.Context) {
	if !r.revisionConfirmed() {
		return
	}
	r.setState(ctx, messages.ReplicaState_REPLICA_STATE_SERVING)
	r.advance(ctx)
	if r.CheckFolder != nil && r.model.GetRevisionDigest() != "" {
		supervise.After(ctx, checkFolderEvery, &checkFolder{r.incarnation})
	}
}

// checkFolder and folderChecked are messages to self.
type (
	checkFolder   struct{ incarnation uint64 }
	folderChecked struct {
		incarnation uint64
		fault       string
	}
)

// onCheckFolder checks the model folder. A replica whose files are damaged or missing continues to
// serve and reports the fault.
func (r *replica) onCheckFolder(ctx actor.Context, msg *checkFolder) {
	if msg.incarnation != r.incarnation || r.stopping {
		return
	}
	look, revision, incarnation := r.CheckFolder, r.model.GetRevisionDigest(), r.incarnation
	supervise.Job(ctx, r.life,
		func(context.Context) (string, error) { return look(revision), nil },
		func(fault string, _ error) any { return &folderChecked{incarnation, fault} })
}

func (r *replica) onFolderChecked(ctx actor.Context, msg *folderChecked) {
	if msg.incarnation != r.incarnation || r.stopping {
		return
	}
	supervise.After(ctx, checkFolderEvery, &checkFolder{r.incarnation})
	if msg.fault != r.folderFault {
		r.folderFault = msg.fault
		r.Log.Warn().Str("replica", r.Spec.GetName()).Str("fault", msg.fault).Msg("model folder changed")
		r.scheduleReport(ctx)
	}
}

// setNamespace enables offload if the revision is known. Blocks are valid only for the same files
// and the same layout.
func (r *replica) setNamespace(l *kvTiers) {
	if d := r.model.GetRevisionDigest(); d != "" {
		l.namespace, l.ready = kv.Root(l.down.Layout(), d, nil), true
	}
}

// checkRevision returns a refusal if output computed by another revision cannot be continued here.
// Revisions without a digest are not compared.
func (r *replica) checkRevision(computed string) *messages.Refused {
	own := r.model.GetRevisionDigest()
	if computed == "" || own == "" || computed == own {
		return nil
	}
	return refusal(messages.Reason_REASON_WEIGHTS_DIFFER,
		"replica "+r.Spec.GetName()+" serves revision "+digest.Short(own)+
			", but the sequence was started with revision "+digest.Short(computed), retryAfter)
}

// checkBase returns a refusal if an adapter was registered for other weights than those loaded.
func (r *replica) checkBase(spec *messages.AdapterSpec) *messages.Refused {
	own := r.model.GetWeightsDigest()
	if base := spec.GetBaseDigest(); base != "" && own != "" && base != own {
		return refusal(messages.Reason_REASON_WEIGHTS_DIFFER, "adapter "+spec.GetName()+" was registered for weights "+
			digest.Short(base)+" of model "+r.Spec.GetModel()+", which now has "+digest.Short(own)+
			"; register it again", 0)
	}
	return nil
}
