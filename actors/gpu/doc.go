// Package gpu is the actor of one device: its HBM ledger, the models in it, and whether it may be used at all.
//
// Parent: the devices group. Child: hbm, the KV tier in the device's memory.
// Accepts: LoadModel, UnloadModel, LeaseAdapters, KVReport, KVShrunk, GetGpu, QuarantineGpu, ReleaseGpu, DeviceFailed. Answers: LoadModelResult, UnloadModelResult, LeaseAdaptersResult,
// QuarantineGpuResult and ReleaseGpuResult, once for each command; GpuStatus. Sends ShrinkKV, GrowKV.
//
// Who may have which page is decided by core/hbm, and how many KV blocks fit by core/units. Reading a model is
// a job; what it read is held by Models, which outlives every actor.
//
// KV memory is resized while it serves (resize.go). A load that is short waits for what core/hbm has replicas give up: each says that nobody uses it
// (KVShrunk), a job takes it away, GrowKV says how much is left, and no step runs in between. A replica that is silent or refuses keeps what it has, and
// a load that got no memory in time is refused. The ledger follows what Models holds.
//
// A share of the memory, Config.KVReserve, is kept for KV blocks. A load is refused where core/hbm.Budget has no room for
// it (budget.go); no replica gives up its share of what is promised, and what becomes free goes first to replicas that have
// less than their share.
//
// Every second a job observes the device, and core/health judges what it saw. A device that is lost, has memory errors or needs a reset is
// quarantined: it takes no new model, and deployments, which ask, move what is on it elsewhere. What is on a lost device is given
// up: its leases are freed once nobody uses them. It comes back by ReleaseGpu, after a self-test unless told otherwise; a lost one is
// tried now and then without being asked.
//
// The quarantine outlives the actor, though not the process. State: the ledger is observed, rebuilt at Started from what Models holds. Loads are in flight: a crash cancels
// them, and whoever asked asks again. Replicas are not children of this actor and go on serving while it restarts.
package gpu
