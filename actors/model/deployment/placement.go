package deployment

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/engine"
	"troupe/messages"
)

// inspect starts a job that reads the model's headers, to compute the memory that a replica needs.
func (d *deployment) inspect(ctx actor.Context) {
	inspect, path, incarnation := d.Inspect, d.spec.GetPath(), d.incarnation
	supervise.Job(ctx, d.lifetime,
		func(context.Context) (engine.ModelInfo, error) { return inspect(path) },
		func(f engine.ModelInfo, err error) any { return &inspected{incarnation, path, f, err} })
}

func (d *deployment) onInspected(ctx actor.Context, msg *inspected) {
	if msg.incarnation != d.incarnation || msg.path != d.spec.GetPath() {
		return
	}
	if msg.err != nil { // the next tick retries
		d.setFailure(&messages.Refused{
			Reason: messages.Reason_REASON_LOAD_FAILED, Detail: "node " + d.Node + ": " + msg.err.Error(),
		})
		d.publishStatus(ctx)
		return
	}
	d.facts = &msg.facts
	d.reconcile(ctx)
}

// queryGPUs requests the status of all GPUs, and returns a map for the replies.
func (d *deployment) queryGPUs(ctx actor.Context, id string) map[location]*messages.GpuStatus {
	replies := make(map[location]*messages.GpuStatus)
	for name, n := range d.nodes {
		for _, gpu := range n.member.GetGpus() {
			replies[location{name, gpu}] = nil
			ctx.Request(d.GPU(n.member, gpu), &messages.GetGpu{RequestId: id})
		}
	}
	return replies
}

// pollGPUs requests the status of the GPUs that have replicas, to detect quarantines.
func (d *deployment) pollGPUs(ctx actor.Context) {
	queried := make(map[location]bool)
	for _, r := range d.replicas {
		at := location{r.spec.GetNode(), r.spec.GetGpu()}
		if n := d.nodes[at.node]; n != nil && r.phase > placing && !queried[at] {
			queried[at] = true
			ctx.Request(d.GPU(n.member, at.name), &messages.GetGpu{RequestId: d.Name})
		}
	}
}

func (d *deployment) onGPUStatus(ctx actor.Context, msg *messages.GpuStatus) {
	at := location{msg.GetNode(), msg.GetName()}
	if now := isQuarantined(msg); now != d.quarantined[at] {
		d.quarantined[at] = now
		defer d.reconcile(ctx)
	}
	if _, queried := d.gpuSurvey[at]; queried {
		d.gpuSurvey[at] = msg
	}
	for name, r := range d.replicas {
		if r.spec.GetNode() == at.node && r.spec.GetGpu() == at.name {
			r.leased = leasedMemory(msg, name)
		}
	}
	for _, r := range d.replicas {
		if _, queried := r.gpus[at]; !queried || r.phase != placing {
			continue
		}
		r.gpus[at] = msg
		for _, answer := range r.gpus {
			if answer == nil {
				return
			}
		}
		d.choosePlacement(ctx, r)
		return
	}
}

// onPlacementTimeout places a replica without the GPUs that have not replied.
func (d *deployment) onPlacementTimeout(ctx actor.Context, msg *placementTimeout) {
	if r := d.replicas[msg.replica]; msg.incarnation == d.incarnation && r != nil && r.phase == placing {
		d.choosePlacement(ctx, r)
	}
}

// choosePlacement places a replica on the GPU that still has its lease, or else where core/schedule
// decides.
func (d *deployment) choosePlacement(ctx actor.Context, r *replicaState) {
	name := r.spec.GetName()
	at, left := d.lastPlacement[name]
	if !left || r.gpus[at] == nil || isQuarantined(r.gpus[at]) || !d.nodes[at.node].schedulable() {
		gpus := d.candidates(r.gpus, r)
		chosen, why, ok := schedule.Place(d.need(), gpus)
		if !ok {
			d.onNoRoom(ctx, r, why, schedule.ClosestFit(d.need(), gpus))
			return
		}
		at = location{chosen.Node, chosen.Name}
		d.Log.Info().Str("replica", name).Str("gpu", at.node+"/"+at.name).Str("why", why).Msg("replica placed")
		d.Publish("replica.placed", name, why)
	}
	r.spec = proto.Clone(r.spec).(*messages.ReplicaSpec)
	r.spec.Node, r.spec.Gpu = at.node, at.name
	d.setPhase(ctx, r, starting)
}

// onNoRoom drops a replica that fits no GPU. The next tick retries.
func (d *deployment) onNoRoom(ctx actor.Context, r *replicaState, why string, closest *hbm.Overload) {
	name := r.spec.GetName()
	delete(d.replicas, name)
	d.noRoom = true
	if d.failure == nil || d.outOfMemory { // a failure on a GPU is more specific
		refused := &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: "no GPU for replica " + name +
			": " + why}
		if closest != nil {
			refused.Detail += "; delete a model, lower max_sequences or kv_blocks, or add a GPU"
			refused.Memory = messages.ShortOfMemory(d.spec.GetPath(), closest)
		}
		d.setFailure(refused)
		d.outOfMemory = true
	}
	d.reconcile(ctx)
}

// need returns the memory that a replica needs on a GPU.
func (d *deployment) need() hbm.Need {
	return d.facts.Need(engine.LoadSpec{
		BlockTokens: int(d.spec.GetBlockTokens()), RequestedBlocks: int(d.spec.GetKvBlocks()),
		AdapterPages: int(d.spec.GetAdapterPages()),
		Limits: engine.Limits{
			StepTokens: int(d.spec.GetStepTokens()), MaxSequences: int(d.spec.GetMaxSequences()),
			MaxAdapters: int(d.spec.GetMaxAdapters()), MaxRank: int(d.spec.GetMaxAdapterRank()),
		},
	})
}

// budgetOf returns the budget that a GPU reported.
func budgetOf(s *messages.GpuStatus) hbm.Budget {
	b := s.GetBudget()
	return hbm.Budget{
		Total: int64(s.GetMemoryBytes()), Reserve: int64(b.GetKvReserve()), Fixed: int64(b.GetFixed()),
		Min:      int64(b.GetKvMinBytes()),
		Replicas: len(b.GetReplicas()),
	}
}

// candidates returns the GPUs as candidates for placement. It counts replicas other than exclude
// that are starting on a GPU whose budget does not include them yet.
func (d *deployment) candidates(gpus map[location]*messages.GpuStatus, exclude *replicaState) []schedule.GPU {
	var all []schedule.GPU
	for at, s := range gpus {
		g := schedule.GPU{
			Node: at.node, Name: at.name, Memory: budgetOf(s), Avoid: time.Now().Before(d.avoidUntil[at]),
			Quarantined: isQuarantined(s),
			Draining:    !d.nodes[at.node].schedulable(),
			Silent:      s == nil,
		}
		for name, other := range d.replicas {
			if other == exclude || other.spec.GetNode() != at.node || other.phase > up {
				continue
			}
			if other.spec.GetGpu() == at.name {
				g.Siblings++
				if other.phase < up && !slices.Contains(s.GetBudget().GetReplicas(), name) {
					g.Memory = g.Memory.With(d.need())
				}
			}
		}
		all = append(all, g)
	}
	return all
}

func isQuarantined(s *messages.GpuStatus) bool {
	return s.GetState() == messages.GpuState_GPU_STATE_QUARANTINED
}
