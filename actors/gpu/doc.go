// Package gpu provides the actor of one device. It owns the HBM ledger and the models in the
// device's memory, and quarantines the device when it fails.
//
// Parent: the devices group. Child: hbm, the KV tier in the device's memory. Accepts: LoadModel,
// UnloadModel, LeaseAdapters, KVReport, KVShrunk, GetGpu, QuarantineGpu, ReleaseGpu, DeviceFailed.
// Answers: LoadModelResult, UnloadModelResult, LeaseAdaptersResult, QuarantineGpuResult and
// ReleaseGpuResult, once for each command; GpuStatus. Sends: ShrinkKV, GrowKV.
//
// It is a shell over two machines. core/device decides what is in the memory: its events are the
// messages and the ends of jobs, and perform carries out its effects. core/quarantine decides whether
// the device may be used; performHealth carries out its effects. Jobs read, load, resize and free the
// memory; Models holds it and survives every actor.
//
// # KV memory
//
// KV memory is resized while it serves. A load that is short of memory waits until replicas yield
// pages. Each replica confirms that the blocks are unused (KVShrunk), a job frees the memory, and
// GrowKV reports the new number of blocks. The replica runs no step in between. A replica that is
// silent or refuses keeps its memory, and a load that gets none in time is refused. The ledger follows
// Models.
//
// Config.KVReserve is the share of the memory that is reserved for KV blocks. A load that does not
// fit hbm.Budget is refused. No replica yields its guaranteed share, and free memory goes first to
// replicas below their share.
//
// # Health
//
// A job observes the device every second, and core/health judges the observation. A device that is
// lost, has memory errors or needs a reset is quarantined: it takes no new model. Deployments poll
// the device and move its replicas elsewhere. The models on a lost device are unloaded once no
// replica uses them. ReleaseGpu ends the quarantine, by default after a self-test. A lost device is
// also tested at intervals.
//
// The quarantine survives the actor, but not the process.
//
// # State
//
// The ledger is observed: Started rebuilds it from Models. Loads are in flight: a crash cancels
// them, and their requesters retry. Replicas are not children of this actor and continue to serve
// while it restarts.
package gpu
