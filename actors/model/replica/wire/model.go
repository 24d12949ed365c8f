package wire

import (
	"cmp"

	"troupe/core/kv"
	"troupe/core/replica"
	"troupe/core/turns"
	"troupe/messages"
)

// Config returns the configuration of a replica's machine.
func Config(s *messages.ReplicaSpec) replica.Config {
	return replica.Config{Name: s.GetName(), Model: s.GetModel(),
		BlockTokens: int(s.GetBlockTokens()), LeastBlocks: int(s.GetKvBlocks()),
		MaxSequences: int(s.GetMaxSequences()), MaxWaiting: int(s.GetMaxWaiting()), StepTokens: int(s.GetStepTokens()),
		Standby:  s.GetLevel() == messages.Level_LEVEL_STANDBY,
		Weight:   turns.Weight(turns.Class(s.RequestClass())),
		Revision: s.GetRevisionDigest(), MaxAdapters: int(cmp.Or(s.GetMaxAdapters(), messages.DefaultAdapters)),
	}
}

// LoadModel returns the command that loads the model of a replica whose incarnation started then.
func LoadModel(spec *messages.ReplicaSpec, maxAdapters int, started uint64) *messages.LoadModel {
	return &messages.LoadModel{
		RequestId: spec.GetName(), Lease: spec.GetName(), Model: spec.GetModel(), Path: spec.GetPath(),
		BlockTokens: spec.GetBlockTokens(),
		KvBlocks:    spec.GetKvBlocks(), MaxSequences: spec.GetMaxSequences(),
		StepTokens: spec.GetStepTokens(), AdapterPages: spec.GetAdapterPages(),
		MaxAdapters:    uint32(maxAdapters),
		MaxAdapterRank: cmp.Or(spec.GetMaxAdapterRank(), messages.DefaultAdapterRank),
		RevisionDigest: spec.GetRevisionDigest(), Deploy: spec.GetDeploy(), Started: started,
		Engine: spec.GetEngine().GetKind(),
	}
}

// AdoptBlocks returns the command that looks up the blocks of a lease.
func AdoptBlocks(spec *messages.ReplicaSpec, m *messages.ModelLoaded) *messages.AdoptBlocks {
	return &messages.AdoptBlocks{RequestId: spec.GetName(), Lease: spec.GetName(), Blocks: m.GetKvBlocks(),
		BlockTokens: spec.GetBlockTokens(), BlockBytes: m.GetKvBlockBytes()}
}

// Model converts the description of the loaded model.
func Model(m *messages.ModelLoaded) replica.Model {
	return replica.Model{Adopted: m.GetAdopted(), Lease: m.GetLease(), Handle: m.GetHandle(),
		Blocks:        int(m.GetKvBlocks()),
		BlockBytes:    m.GetKvBlockBytes(),
		ContextTokens: int(m.GetContextTokens()), RevisionDigest: m.GetRevisionDigest(),
		WeightsDigest: m.GetWeightsDigest(), AdapterPages: int(m.GetAdapterPages()),
		Canary: replica.Answer{Prompt: m.GetCanary().GetPrompt(), Tokens: m.GetCanary().GetTokens()}}
}

// LoadRefusal converts the refusal of a load. Of the reason, only whether it is temporary matters.
func LoadRefusal(r *messages.Refused) replica.Refusal {
	why := replica.Refusal{Reason: replica.LoadFailed, Detail: r.GetDetail()}
	if r.GetReason() == messages.Reason_REASON_NOT_READY {
		why.Reason = replica.NotReady
	}
	return why
}

// Resident converts the blocks that an earlier incarnation left.
func Resident(all []*messages.Block) []kv.Committed {
	resident := make([]kv.Committed, len(all))
	for i, b := range all {
		resident[i] = kv.Committed{Block: int32(b.GetIndex()), Hash: kv.Hash(b.GetHash())}
	}
	return resident
}

// BlocksChanged converts changes of blocks.
func BlocksChanged(lease string, e replica.BlocksChanged) *messages.BlocksChanged {
	msg := &messages.BlocksChanged{Lease: lease, Committed: make([]*messages.Block, len(e.Committed))}
	for _, b := range e.Evicted {
		msg.Evicted = append(msg.Evicted, uint32(b))
	}
	for i, c := range e.Committed {
		msg.Committed[i] = &messages.Block{Index: uint32(c.Block), Hash: c.Hash[:]}
	}
	return msg
}
