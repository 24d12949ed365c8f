// Package backend names the kinds of backends that serve sequences, and what each of them can do.
//
// A backend is a replica's actor: what the cluster asks of it are messages, the same for every kind
// (actors/model/replica lists them in Receive). Package testkit/conformance has the messages of each operation,
// and checks that a kind answers them.
//
//   - Native: the scheduler, KV blocks and adapters of this program over an engine that computes on a device.
//   - Simulated: the same scheduler over an engine that computes nothing. A cost model says how long each
//     step takes, and the text is made of random words. Devices of this kind have memory that is only counted.
//
// # Capabilities
//
// A Set has what a backend can do. A Spec may leave out capabilities of its kind, to try what the cluster does
// without them. The set travels in ReplicaStatus; a replica of an earlier version reports none, and has all.
// What a backend cannot do is left out by those who would ask for it, and Missing says so in words:
//
//	token_ids     gateway     refuses prompts and answers as token IDs
//	resume        router      refuses a sequence that has output: its stream ends with an error
//	              replica     does not move running sequences: they finish, or wait for their deadline
//	seeds         gateway     refuses a seed
//	logprobs      gateway     refuses logprobs
//	adapters      gateway     refuses adapters; router passes over the replica
//	standby       control     refuses models.standby
//	kv_events     router      expects no cached prefix there
//	kv_migration  replica     lets running sequences be computed again elsewhere, instead of moving their KV blocks
//	kv_tiers      replica     does not offload, restore or send KV blocks
package backend
