package replica

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/messages"
)

// requestNext requests what the startup still lacks: first the model, then the blocks.
func (r *replica) requestNext(ctx actor.Context) {
	name := r.Spec.GetName()
	switch {
	case r.model == nil:
		ctx.Request(r.GPU, &messages.LoadModel{
			RequestId: name, Lease: name, Path: r.Spec.GetPath(), BlockTokens: r.Spec.GetBlockTokens(),
			KvBlocks: r.Spec.GetKvBlocks(), MaxSequences: r.Spec.GetMaxSequences(),
			StepTokens: r.Spec.GetStepTokens(), AdapterPages: r.Spec.GetAdapterPages(),
			MaxAdapters: r.maxAdapters(), MaxAdapterRank: cmp.Or(r.Spec.GetMaxAdapterRank(),
				messages.DefaultAdapterRank),
			RevisionDigest: r.Spec.GetRevisionDigest(), Deploy: r.Spec.GetDeploy(),
		})
	case r.engine == nil:
		ctx.Request(r.HBM, &messages.AdoptBlocks{
			RequestId: name, Lease: name, Blocks: r.model.GetKvBlocks(), BlockTokens: r.Spec.GetBlockTokens(),
			BlockBytes: r.model.GetKvBlockBytes(),
		})
	case r.revisionConfirmed():
		return
	default: // the deployment has not confirmed the revision yet
		r.publishStatus(ctx)
	}
	supervise.After(ctx, requestRetryAfter, &retryLoad{r.incarnation})
}

func (r *replica) onRetryLoad(ctx actor.Context, msg *retryLoad) {
	if msg.incarnation == r.incarnation && r.state == messages.ReplicaState_REPLICA_STATE_LOADING {
		r.requestNext(ctx)
	}
}

func (r *replica) onLoaded(ctx actor.Context, msg *messages.LoadModelResult) {
	if r.model != nil {
		return // repeated request
	}
	if refused := msg.GetRefused(); refused != nil {
		if refused.GetReason() != messages.Reason_REASON_NOT_READY { // otherwise retryLoad repeats the request
			r.failure, r.foundRevision = refused, msg.GetFoundRevision()
			r.setState(ctx, messages.ReplicaState_REPLICA_STATE_FAILED)
		}
		return
	}
	r.model = msg.GetLoaded()
	if !r.model.GetAdopted() {
		*r.loads++
	}
	if !r.revisionConfirmed() {
		r.publishStatus(ctx)
	}
	r.requestNext(ctx)
}

// onBlocksAdopted starts the engine over the adopted blocks.
func (r *replica) onBlocksAdopted(ctx actor.Context, msg *messages.AdoptBlocksResult) {
	if r.engine != nil {
		return // repeated request
	}
	blocks, blockTokens := int(r.model.GetKvBlocks()), int(r.Spec.GetBlockTokens())
	r.pool = kv.NewPool(blocks, blockTokens)
	r.announcer = kv.NewAnnouncer(announceBytes, blocks*fingerprintBytes)
	for _, b := range msg.GetAdopted().GetResident() {
		if h := kv.Hash(b.GetHash()); r.pool.Recover(int32(b.GetIndex()), h) {
			r.announcer.Apply(nil, []kv.Committed{{Block: int32(b.GetIndex()), Hash: h}})
		}
	}
	r.context = r.contextLimit(blocks)
	r.batch = batch.New(batch.Limits{
		MaxSequences: int(r.Spec.GetMaxSequences()), MaxWaiting: int(r.Spec.GetMaxWaiting()),
		StepTokens:    int(r.Spec.GetStepTokens()),
		ContextTokens: r.context,
	}, r.pool)
	r.openMigrations(ctx)
	r.openTiers()
	r.openAdapters(ctx)
	pid, err := ctx.SpawnNamed(r.Engine(r.model.GetLease(), r.gates.find), "engine")
	if err != nil {
		panic(err)
	}
	r.engine = pid
	r.reportKV(ctx)
}
