package replica

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// confirmed reports whether what is loaded is what its deployment serves: the files were asked for by their
// digest, or the deployment has taken them for the revision's. Until then the replica does not serve.
func (r *replica) confirmed() bool {
	d := r.model.GetRevisionDigest()
	return d == "" || d == r.Spec.GetRevisionDigest() || d == *r.revision
}

// onConfirm takes the deployment's word, which holds for later lives too: they adopt what is loaded.
func (r *replica) onConfirm(ctx actor.Context, msg *messages.ConfirmRevision) {
	*r.revision = msg.GetRevisionDigest()
	if r.ready && !r.ending && r.state == messages.ReplicaState_REPLICA_STATE_LOADING {
		r.serve(ctx)
	}
}

// serve begins to take sequences.
func (r *replica) serve(ctx actor.Context) {
	if !r.confirmed() {
		return
	}
	r.enter(ctx, messages.ReplicaState_REPLICA_STATE_SERVING)
	r.advance(ctx)
	if r.Folder != nil && r.model.GetRevisionDigest() != "" {
		supervise.After(ctx, folderEvery, &folderNow{r.incarnation})
	}
}

// folderNow and folderSeen are notes to self.
type (
	folderNow  struct{ incarnation uint64 }
	folderSeen struct {
		incarnation uint64
		fault       string
	}
)

// onFolderNow looks at the folder: a replica goes on serving when its files are damaged or gone, and says so.
func (r *replica) onFolderNow(ctx actor.Context, msg *folderNow) {
	if msg.incarnation != r.incarnation || r.ending {
		return
	}
	look, revision, incarnation := r.Folder, r.model.GetRevisionDigest(), r.incarnation
	supervise.Job(ctx, r.life,
		func(context.Context) (string, error) { return look(revision), nil },
		func(fault string, _ error) any { return &folderSeen{incarnation, fault} })
}

func (r *replica) onFolderSeen(ctx actor.Context, msg *folderSeen) {
	if msg.incarnation != r.incarnation || r.ending {
		return
	}
	supervise.After(ctx, folderEvery, &folderNow{r.incarnation})
	if msg.fault != r.fault {
		r.fault = msg.fault
		r.Log.Warn().Str("replica", r.Spec.GetName()).Str("fault", msg.fault).Msg("model folder changed")
		r.changed(ctx)
	}
}

// openSpace lets blocks travel where it is known of which files they are, and how they are laid out.
func (r *replica) openSpace(l *lower) {
	if d := r.model.GetRevisionDigest(); d != "" {
		l.space, l.ready = kv.Root(l.down.Layout(), d, nil), true
	}
}

// otherRevision says why what was computed with files of a digest can not go on here. Files without a
// digest are not compared.
func (r *replica) otherRevision(computed string) *messages.Refused {
	own := r.model.GetRevisionDigest()
	if computed == "" || own == "" || computed == own {
		return nil
	}
	return refusal(messages.Reason_REASON_WEIGHTS_DIFFER,
		"replica "+r.Spec.GetName()+" serves revision "+digest.Short(own)+
			", and the sequence was begun with revision "+digest.Short(computed), retryAfter)
}

// otherBase says why an adapter is not for the weights that are loaded here.
func (r *replica) otherBase(spec *messages.AdapterSpec) *messages.Refused {
	own := r.model.GetWeightsDigest()
	if base := spec.GetBaseDigest(); base != "" && own != "" && base != own {
		return refusal(messages.Reason_REASON_WEIGHTS_DIFFER, "adapter "+spec.GetName()+" was registered for weights "+
			digest.Short(base)+" of model "+r.Spec.GetModel()+", which has "+digest.Short(own)+" now; register it again", 0)
	}
	return nil
}
