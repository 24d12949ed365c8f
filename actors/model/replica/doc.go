// Package replica provides the actor of a placed copy of a model.
//
// Parent: the replicas group. Children: engine (package stepper); transfers, if there is a data
// plane; copier, if there are KV tiers; adapters, once a sequence has one. Speaks with: the gpu
// actor (LoadModel, LeaseAdapters, KVReport, RequestTurn), the HBM tier (AdoptBlocks, BlocksChanged), its
// deployment (ReplicaChanged), its node's router (ReplicaAnnounced), sessions, and other replicas of
// the model. Receive, in actor.go, lists the messages that it accepts.
//
// # Machines
//
// All decisions are made by machines in core, which do not know each other. A message becomes an
// event of one of them, and its effects are carried out in order:
//
//   - core/replica: the life cycle, the queue and the steps, KV memory, adapters, and reports. It
//     owns the scheduler and the blocks. Perform (perform.go) carries out its effects.
//   - core/migrate: sequences that migrate here or away. Package migration carries out its effects.
//   - core/restore, core/offload, and core/export: blocks that are restored or fetched for waiting
//     sequences, copied to tiers, and sent to other replicas. Package tiering carries out their
//     effects.
//
// Package wire converts between messages and the machines' types.
//
// The path of a sequence in reading order: onSubmit (sequence.go), Advance, runStep, onStepResult,
// emit (step.go). Advance is the only place where a step starts. Work on blocks that no step may be
// using is done in Advance, or when a step has ended.
//
// # State
//
// The ReplicaSpec is desired state. Weights, KV memory and the content of the blocks are observed
// state: the replica requests them by lease when it starts, so a successor does not load them
// again. The queue, the running sequences, the migrations and the restores are in flight, and a
// crash loses them with their machines. Props keeps the number of loads and the confirmed revision
// across restarts.
//
// # Crashes
//
// The replicas group restarts a replica that crashes. The crash interrupts all its sequences, and
// their sessions submit them again with prompt and output. Their KV blocks are still there, so
// little is recomputed. Migrations and restores in progress are lost, and no incomplete block
// counts as valid. The adapter pool, which is a child, is restarted too.
//
// A crash of the engine loses the step in flight. The replica runs it again after EngineReady, and
// eventually drops a sequence on which the engine always crashes. A crash of the copier ends the
// copies in progress; the sequences recompute those blocks. A crash of the transfers ends the
// migrations in progress; the sequences continue at their sources. A crash of the adapter pool
// loses no sequence: the restarted pool receives the pins in effect first. If one of these children
// stops for good, the replica crashes, and its supervisor decides what happens next.
package replica
