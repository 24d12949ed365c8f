package replica

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/messages"
)

// ask asks for what is still missing: the model, then the blocks.
func (r *replica) ask(ctx actor.Context) {
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
	case r.confirmed():
		return
	default: // the deployment has not seen yet what was found
		r.inform(ctx)
	}
	supervise.After(ctx, askAgainAfter, &askAgain{r.incarnation})
}

func (r *replica) onAskAgain(ctx actor.Context, msg *askAgain) {
	if msg.incarnation == r.incarnation && r.state == messages.ReplicaState_REPLICA_STATE_LOADING {
		r.ask(ctx)
	}
}

func (r *replica) onLoaded(ctx actor.Context, msg *messages.LoadModelResult) {
	if r.model != nil {
		return // asked twice
	}
	if refused := msg.GetRefused(); refused != nil {
		if refused.GetReason() != messages.Reason_REASON_NOT_READY { // else askAgain comes
			r.failure, r.found = refused, msg.GetFoundRevision()
			r.enter(ctx, messages.ReplicaState_REPLICA_STATE_FAILED)
		}
		return
	}
	r.model = msg.GetLoaded()
	if !r.model.GetAdopted() {
		*r.loads++
	}
	if !r.confirmed() {
		r.inform(ctx)
	}
	r.ask(ctx)
}

// onAdopted: the blocks are known. Start the engine over them.
func (r *replica) onAdopted(ctx actor.Context, msg *messages.AdoptBlocksResult) {
	if r.engine != nil {
		return // asked twice
	}
	blocks, blockTokens := int(r.model.GetKvBlocks()), int(r.Spec.GetBlockTokens())
	r.pool = kv.NewPool(blocks, blockTokens)
	r.news = kv.NewAnnouncer(announceBytes, blocks*shortBytes)
	for _, b := range msg.GetAdopted().GetResident() {
		if h := kv.Hash(b.GetHash()); r.pool.Recover(int32(b.GetIndex()), h) {
			r.news.Apply(nil, []kv.Committed{{Block: int32(b.GetIndex()), Hash: h}})
		}
	}
	r.context = r.longest(blocks)
	r.batch = batch.New(batch.Limits{
		MaxSequences: int(r.Spec.GetMaxSequences()), MaxWaiting: int(r.Spec.GetMaxWaiting()), StepTokens: int(r.Spec.GetStepTokens()),
		ContextTokens: r.context,
	}, r.pool)
	if r.Bulk != nil {
		open, err := r.Blocks(r.model.GetLease())
		if err != nil {
			panic(err)
		}
		r.blocks = open
	}
	r.openTiers()
	r.openAdapters(ctx)
	pid, err := ctx.SpawnNamed(r.Engine(r.model.GetLease(), r.gates.find), "engine")
	if err != nil {
		panic(err)
	}
	r.engine = pid
	r.reportKV(ctx)
}
