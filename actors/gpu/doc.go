// Package gpu is the actor of one device: its HBM ledger and the models in it.
//
// Parent: the devices group. Child: hbm, the KV tier in the device's memory.
// Accepts: LoadModel, UnloadModel, GetGpu. Answers: LoadModelResult and UnloadModelResult, once for each
// command; GpuStatus.
//
// Who may have which page is decided by core/hbm, and how many KV blocks fit by core/spec. Reading a model is
// a job; what it read is held by Models, which outlives every actor.
//
// State: the ledger is observed, rebuilt at Started from what Models holds. Loads are in flight: a crash cancels
// them, and whoever asked asks again. Replicas are not children of this actor and go on serving while it restarts.
package gpu
