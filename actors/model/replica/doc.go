// Package replica provides the actors of a placed copy of a model: the replica, and the engine
// below it.
//
// # Replica
//
// Parent: the replicas group. Children: engine; transfers, if the node has a data plane; adapters,
// once a sequence has one. Speaks with: the gpu actor (LoadModel, LeaseAdapters, KVReport), the HBM
// tier (AdoptBlocks, BlocksChanged), its deployment (ReplicaChanged), its node's router
// (ReplicaAnnounced), sessions, and other replicas of the model (protocol Migrate). Accepts:
// SubmitSequence, CancelSequence, GetSequence, DrainReplica, GetReplica, EngineReady,
// RunStepResult, MigrateSequences, OfferSequence, ResumeSequence, AbandonSequence, OffloadBlocks,
// RestoreBlocks, FlushBlocks, LeaseBlocks, ReleaseBlocks, ShrinkKV, GrowKV, ConfirmRevision,
// ApplyAdapter, ForgetAdapter.
//
// core/batch decides over core/kv which sequences enter a step and which blocks they get. The
// replica executes these decisions. One step is in flight at a time, and every token is sent to its
// session when the step ends.
//
// The ReplicaSpec is desired state. Weights, KV memory and the content of the blocks are observed
// state: the replica requests them by lease when it starts, so a successor loads nothing again. The
// queue and the running sequences are in flight. A crash interrupts them, and their sessions submit
// them again with prompt and output. Their KV blocks are still there, so little is recomputed.
//
// # Adapters
//
// Sequences with adapters run in one batch with the others (adapters.go). The adapter pool, a child
// actor, decides which adapters are on the device. A lora.PinClient records which sequence pins
// which adapter, and is lost in a crash together with the sequences. A pin ends only between two
// steps, since the step in flight may read the adapter. When the pool restarts, it first receives
// the pins in effect. A migrating sequence is accepted only once its adapter is loaded here.
//
// # Migration
//
// core/migrate decides, by a machine for outgoing sequences and one for incoming ones. migrate.go
// maps messages to its events, and migrate_perform.go its effects to messages. The blocks are moved
// by the transfers actor (package transfer), a child. A crash of the replica loses the migrations
// but not the sequences: their sessions submit them again. A crash of the transfers actor ends the
// migrations whose blocks were being moved, and their sequences continue at their sources.
//
// # Restores
//
// A sequence that is about to be admitted is held while its first blocks are looked up
// (restore_queue.go, tier_lookup.go) and restored (restore.go, restore_copy.go, remote_restore.go),
// if that is faster than recomputing them. Other sequences that need the same blocks wait for it.
//
// Large blocks arrive in parts, from tiers and from other nodes, and the sequence starts before the
// last part (restore_overlap.go). Its first step passes a gate at each part. Until that step is
// done, the blocks belong to the sequence alone and no other actor knows of them. A crash therefore
// leaves no block that is incomplete but counts as valid. A gate that fails aborts the step: it is
// planned again without the sequence, which waits for the end of the restore.
//
// # Engine
//
// Parent: the replica. Accepts: RunStep. Answers: RunStepResult. It owns the engine.Engine, which
// keeps nothing between steps. A crash loses the step in flight, and the replica runs it again
// after EngineReady. The actor stops only after a running step has ended, so that two engines never
// write to the same KV memory.
package replica
