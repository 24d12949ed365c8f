// Package gpu provides the actor of one device. It owns the HBM ledger and the models in the
// device's memory, and quarantines the device when it fails.
//
// Parent: the devices group. Child: hbm, the KV tier in the device's memory. Accepts: LoadModel,
// UnloadModel, ReadWeights, LeaseAdapters, AdapterReport, AdaptersShrunk, KVReport, KVShrunk, GetGpu,
// EvictWeights, QuarantineGpu, ReleaseGpu, DeviceFailed, RequestTurn, TurnEnded. Answers:
// LoadModelResult, UnloadModelResult, ReadWeightsResult, LeaseAdaptersResult, EvictWeightsResult,
// QuarantineGpuResult and ReleaseGpuResult, once for each command; GpuStatus. Sends: ShrinkKV, GrowKV,
// ShrinkAdapters, GrowAdapters, TurnGranted, RecallTurn, ReplicaOverdue, DeviceChanged.
//
// The actor drives three machines. core/device decides what is in the memory: its events are messages
// and the results of jobs, and perform carries out its effects. core/quarantine decides whether the
// device may be used, and performHealth carries out its effects. Jobs load, resize and free the
// memory. Models holds the memory and survives every actor.
//
// # Weights
//
// Weights are apart from the leases of replicas: once on the device for all replicas of the same files,
// and still there when the last replica has ended. They go when a load needs the memory, when KV memory
// needs it and their deployment is deleted, or when EvictWeights or an UnloadModel drops them. A lease
// is opened with the handle in ModelLoaded, a secret that only the actor that loaded the lease gets.
//
// # Readers
//
// Weights are a source for loads of other devices and nodes (Devices). A load asks the actor for a reader
// (ReadWeights), and reads at Models until it ends the reader there, whatever happens to the actors
// meanwhile. Models then notifies the actor, as core/residency must know when the memory may be freed. A
// reader that no load claims in time ends by itself; one that is revoked ends after the part that it
// copies.
//
// A load ends only once the weights have passed the check of core/verify. If no source passes it, the load is
// refused with each source, and the device is tested.
//
// # KV memory
//
// KV memory is resized while its replica serves. A load that is short of memory waits until
// replicas yield pages. Each of these replicas confirms that the blocks are unused (KVShrunk), a
// job frees the memory, and GrowKV reports the new number of blocks. The replica runs no step
// between KVShrunk and GrowKV. A replica that does not answer or refuses keeps its memory, and a
// load that does not get enough memory in time is refused. The ledger records what Models holds.
//
// Config.KVReserve is the share of the memory that is reserved for KV blocks. A load that does not
// fit hbm.Budget is refused. No replica yields its guaranteed share, and free memory is given first
// to replicas below their share.
//
// # Adapters
//
// The pages of an adapter pool grow and shrink like KV memory. A pool that lacks pages reports that, and
// GrowAdapters answers it, after a job has added free pages if there are any. A load that is short of memory
// makes pools give back pages beyond their minimum (ShrinkAdapters). Models frees only pages that were given
// back there, so neither a crash of the pool nor of this actor frees a page in use, or loses one.
//
// # Turns
//
// core/turns decides which replica runs its next step (turns.go). A replica joins with its first request,
// and leaves when it stops, when its next incarnation reports, or when its memory is freed. Who has the
// turn is lost in a crash. The next incarnation expects the replicas that have memory on the device, and
// recalls their turns. A turn that is overdue is reported to its replica.
//
// # Utilization
//
// Replicas report their steps and the work of them every second (KVReport). core/utilization keeps a
// window of them, which survives a restart of the actor.
//
// # Health
//
// A job observes the device every second, and core/health judges the observation. A device that is
// lost, has memory errors or needs a reset is quarantined: it takes no new model. Deployments poll
// the device and move its replicas elsewhere. The models on a lost device are unloaded once no
// replica uses them. ReleaseGpu ends the quarantine, by default after a self-test. A lost device is
// also tested at intervals.
//
// The quarantine survives a restart of the actor, but not of the process.
//
// # State
//
// The ledger is observed state: Started rebuilds it from Models. A crash cancels the loads in
// flight, and their requesters retry. Replicas are not children of this actor and continue to serve
// while it restarts.
package gpu
