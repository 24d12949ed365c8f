// Package replica holds the actors of a placed copy of a model: the replica, the engine below it, and the group
// that supervises a node's replicas.
//
// # Replica
//
// Parent: the replicas group. Children: engine; adapters, once a sequence has one.
// Speaks with: the gpu actor (LoadModel, LeaseAdapters, KVReport), the HBM tier (AdoptBlocks, BlocksChanged), its deployment (ReplicaChanged), sessions.
// Speaks also with: its node's router (ReplicaAnnounced), other replicas of the model (protocol Migrate).
// Accepts: SubmitSequence, CancelSequence, GetSequence, DrainReplica, GetReplica, EngineReady, RunStepResult, MigrateSequences,
// OfferSequence, ResumeSequence, AbandonSequence, ShrinkKV, GrowKV, ApplyAdapter, ForgetAdapter.
//
// Which sequences enter a step, and which blocks they get, is decided by core/batch over core/kv. The replica carries
// that out: one step is in flight at a time, and every token goes to its session the moment the step ends.
//
// State: the ReplicaSpec is desired. Weights, KV memory and what is in the blocks are observed: asked for by lease at
// Started, so a successor does not load anything again. The queue and the running sequences are in flight: a crash
// interrupts them, which each session is told, and they come back with prompt and output. Their KV blocks are still
// there, so that little is computed twice.
//
// # Adapters
//
// Sequences with adapters run in one batch with the others (adapters.go). Which are on the device is the pool's to decide, an actor below; which sequences hold
// which is on record at a lora.Desk, and in flight as they are. A pin ends between two steps alone: until then the step in flight may read what it
// kept. Where the pool begins a new life it is told first of all what must stay. A sequence that moves here is held up until its adapter is there.
//
// # Migration
//
// A sequence that leaves (source.go) is the source's until ResumeSequenceResult: until then it goes on here whatever fails, and it keeps
// decoding while its full blocks are sent. It is paused between two steps, and only for the last blocks. One that comes
// (target.go) has room reserved between two steps, its blocks are written by the data plane through an inlet that is
// shut before the room is given to anybody else, and the room is freed when nothing is heard of it or its source is gone. A
// crash of either side loses the move, not the sequence: its session submits it again.
//
// # Restores
//
// A sequence that is next is held while what it begins with is looked for (look.go, search.go) and restored (restore.go, climb.go, fetch.go), if that is faster than
// computing it; others that need the same blocks wait for it. Large blocks come up in parts, from tiers and from other nodes, and the sequence begins
// before the last one is there (rising.go): its first step passes a gate at each. Until that step is done its blocks are its own alone, and no other actor is
// told of them, so that a crash of anybody leaves none that is taken for whole. A gate that does not open makes the step void: it is planned anew without
// the sequence, which waits for the end of the restore.
//
// # Engine
//
// Parent: the replica. Accepts RunStep, answers RunStepResult. It owns the engine.Engine, which keeps nothing between
// steps. A crash loses the step in flight; the replica runs it again when EngineReady comes. Stopping waits for a step that
// still runs, so that two engines never write to the same KV memory.
package replica
