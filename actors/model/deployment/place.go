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

// inspect reads the model's headers, to know how much memory a replica needs.
func (d *deployment) inspect(ctx actor.Context) {
	inspect, path, incarnation := d.Inspect, d.spec.GetPath(), d.incarnation
	supervise.Job(ctx, d.life,
		func(context.Context) (engine.ModelInfo, error) { return inspect(path) },
		func(f engine.ModelInfo, err error) any { return &inspected{incarnation, path, f, err} })
}

func (d *deployment) onInspected(ctx actor.Context, msg *inspected) {
	if msg.incarnation != d.incarnation || msg.path != d.spec.GetPath() {
		return
	}
	if msg.err != nil { // the next tick looks again
		d.fail(&messages.Refused{
			Reason: messages.Reason_REASON_LOAD_FAILED, Detail: "node " + d.Node + ": " + msg.err.Error(),
		})
		d.tell(ctx)
		return
	}
	d.facts = &msg.facts
	d.reconcile(ctx)
}

// askGPUs asks all GPUs of the cluster how they are, and returns where their answers belong.
func (d *deployment) askGPUs(ctx actor.Context, id string) map[place]*messages.GpuStatus {
	asked := make(map[place]*messages.GpuStatus)
	for name, n := range d.nodes {
		for _, gpu := range n.member.GetGpus() {
			asked[place{name, gpu}] = nil
			ctx.Request(d.GPU(n.member, gpu), &messages.GetGpu{RequestId: id})
		}
	}
	return asked
}

// visit asks the GPUs on which replicas are whether they may stay there.
func (d *deployment) visit(ctx actor.Context) {
	asked := make(map[place]bool)
	for _, r := range d.replicas {
		at := place{r.spec.GetNode(), r.spec.GetGpu()}
		if n := d.nodes[at.node]; n != nil && r.phase > placing && !asked[at] {
			asked[at] = true
			ctx.Request(d.GPU(n.member, at.name), &messages.GetGpu{RequestId: d.Name})
		}
	}
}

func (d *deployment) onGPU(ctx actor.Context, msg *messages.GpuStatus) {
	at := place{msg.GetNode(), msg.GetName()}
	if sick := quarantined(msg); sick != d.sick[at] {
		d.sick[at] = sick
		defer d.reconcile(ctx)
	}
	if _, asked := d.survey[at]; asked {
		d.survey[at] = msg
	}
	for name, r := range d.replicas {
		if r.spec.GetNode() == at.node && r.spec.GetGpu() == at.name {
			r.holds = held(msg, name)
		}
	}
	for _, r := range d.replicas {
		if _, asked := r.gpus[at]; !asked || r.phase != placing {
			continue
		}
		r.gpus[at] = msg
		for _, answer := range r.gpus {
			if answer == nil {
				return
			}
		}
		d.choose(ctx, r)
		return
	}
}

// onPlaceNow: a GPU that has not answered by now is not a candidate.
func (d *deployment) onPlaceNow(ctx actor.Context, msg *placeNow) {
	if r := d.replicas[msg.replica]; msg.incarnation == d.incarnation && r != nil && r.phase == placing {
		d.choose(ctx, r)
	}
}

// choose decides on a GPU: the one that still holds the replica's lease, else by core/schedule.
func (d *deployment) choose(ctx actor.Context, r *copyOf) {
	name := r.spec.GetName()
	at, left := d.homes[name]
	if !left || r.gpus[at] == nil || quarantined(r.gpus[at]) || !d.nodes[at.node].open() {
		gpus := d.candidates(r.gpus, r)
		chosen, why, ok := schedule.Place(d.need(), gpus)
		if !ok {
			d.unplaced(ctx, r, why, schedule.ClosestFit(d.need(), gpus))
			return
		}
		at = place{chosen.Node, chosen.Name}
		d.Log.Info().Str("replica", name).Str("gpu", at.node+"/"+at.name).Str("why", why).Msg("replica placed")
		d.Publish("replica.placed", name, why)
	}
	r.spec = proto.Clone(r.spec).(*messages.ReplicaSpec)
	r.spec.Node, r.spec.Gpu = at.node, at.name
	d.enter(ctx, r, starting)
}

// unplaced: there is no room. The next tick tries again.
func (d *deployment) unplaced(ctx actor.Context, r *copyOf, why string, closest *hbm.Overload) {
	name := r.spec.GetName()
	delete(d.replicas, name)
	d.noRoom = true
	if d.failure == nil || d.crowded { // else what a GPU itself said tells more
		refused := &messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: "no GPU for replica " + name + ": " + why}
		if closest != nil {
			refused.Detail += "; delete a model, lower max_sequences or kv_blocks, or add a GPU"
			refused.Memory = messages.ShortOfMemory(d.spec.GetPath(), closest)
		}
		d.fail(refused)
		d.crowded = true
	}
	d.reconcile(ctx)
}

// need is what a replica needs of a GPU.
func (d *deployment) need() hbm.Need {
	return d.facts.Need(engine.LoadSpec{
		BlockTokens: int(d.spec.GetBlockTokens()), RequestedBlocks: int(d.spec.GetKvBlocks()), AdapterPages: int(d.spec.GetAdapterPages()),
		Limits: engine.Limits{
			StepTokens: int(d.spec.GetStepTokens()), MaxSequences: int(d.spec.GetMaxSequences()),
			MaxAdapters: int(d.spec.GetMaxAdapters()), MaxRank: int(d.spec.GetMaxAdapterRank()),
		},
	})
}

// budget is a GPU's memory as it counts it.
func budget(s *messages.GpuStatus) hbm.Budget {
	b := s.GetBudget()
	return hbm.Budget{
		Total: int64(s.GetMemoryBytes()), Reserve: int64(b.GetKvReserve()), Fixed: int64(b.GetFixed()), Min: int64(b.GetKvLeast()),
		Replicas: len(b.GetReplicas()),
	}
}

// candidates are the GPUs that answered. A replica that is starting there, and is not counted yet, is counted too.
func (d *deployment) candidates(gpus map[place]*messages.GpuStatus, but *copyOf) []schedule.GPU {
	var all []schedule.GPU
	for at, s := range gpus {
		g := schedule.GPU{
			Node: at.node, Name: at.name, Memory: budget(s), Avoid: time.Now().Before(d.avoid[at]),
			Quarantined: quarantined(s),
			Draining:    s.GetState() == messages.GpuState_GPU_STATE_DRAINING || !d.nodes[at.node].open(), Silent: s == nil,
		}
		for name, other := range d.replicas {
			if other == but || other.spec.GetNode() != at.node || other.phase > up {
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

func quarantined(s *messages.GpuStatus) bool {
	return s.GetState() == messages.GpuState_GPU_STATE_QUARANTINED
}
