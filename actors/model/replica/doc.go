// Package replica holds the actors of a placed copy of a model: the replica, the engine below it, and the group
// that supervises a node's replicas.
//
// # Replica
//
// Parent: the replicas group. Child: engine.
// Speaks with: the gpu actor (LoadModel), the HBM tier (AdoptBlocks, BlocksChanged), its deployment (ReplicaChanged), sessions.
// Accepts: SubmitSequence, CancelSequence, GetSequence, DrainReplica, GetReplica, EngineReady, RunStepResult.
//
// Which sequences enter a step, and which blocks they get, is decided by core/batch over core/kv. The replica carries
// that out: one step is in flight at a time, and every token goes to its session the moment the step ends.
//
// State: the ReplicaSpec is desired. Weights, KV memory and what is in the blocks are observed: asked for by lease at
// Started, so a successor does not load anything again. The queue and the running sequences are in flight: a crash
// interrupts them, which each session is told, and they come back with prompt and output. Their KV blocks are still
// there, so that little is computed twice.
//
// # Engine
//
// Parent: the replica. Accepts RunStep, answers RunStepResult. It owns the engine.Engine, which keeps nothing between
// steps. A crash loses the step in flight; the replica runs it again when EngineReady comes. Stopping waits for a step that
// still runs, so that two engines never write to the same KV memory.
package replica
