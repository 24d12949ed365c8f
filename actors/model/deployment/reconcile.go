package deployment

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/core/plan"
	"troupe/engine"
	"troupe/messages"
)

// reconcile begins the next change, unless one is under way: first what must go, then what is missing.
func (d *deployment) reconcile(ctx actor.Context) {
	if d.spec == nil || !d.known {
		return
	}
	d.announce()
	for _, r := range d.replicas {
		if r.phase != up {
			return
		}
	}
	for _, r := range d.replicas {
		if d.removing || !d.wanted(r.spec) {
			d.enter(ctx, r, draining)
			return
		}
	}
	if d.removing {
		ctx.Stop(ctx.Self())
		return
	}
	for i := range d.spec.GetReplicas() {
		if spec := d.replicaSpec(int(i)); d.replicas[spec.GetName()] == nil {
			d.place(ctx, spec)
			return
		}
	}
}

// replicaSpec is what replica i is to be. Its GPU is not chosen yet.
func (d *deployment) replicaSpec(i int) *messages.ReplicaSpec {
	return &messages.ReplicaSpec{
		Name: fmt.Sprintf("%s-%d", d.Name, i), Model: d.Name, Path: d.spec.GetPath(), BlockTokens: d.spec.GetBlockTokens(),
		KvBlocks: d.spec.GetKvBlocks(), MaxSequences: d.spec.GetMaxSequences(), MaxWaiting: d.spec.GetMaxWaiting(),
		StepTokens: d.spec.GetStepTokens(),
	}
}

// wanted reports whether a replica is one of those asked for, as they are asked for.
func (d *deployment) wanted(spec *messages.ReplicaSpec) bool {
	for i := range d.spec.GetReplicas() {
		want := d.replicaSpec(int(i))
		want.Gpu = spec.GetGpu()
		if proto.Equal(want, spec) {
			return true
		}
	}
	return false
}

// place begins a replica's life, once the model is known and nobody refused it a moment ago.
func (d *deployment) place(ctx actor.Context, spec *messages.ReplicaSpec) {
	if d.facts == nil {
		inspect, path, incarnation := d.Inspect, spec.GetPath(), d.incarnation
		supervise.Job(ctx, d.life,
			func(context.Context) (engine.Facts, error) { return inspect(path) },
			func(f engine.Facts, err error) any { return &inspected{incarnation, path, f, err} })
		return
	}
	r := &copyOf{spec: spec}
	d.replicas[spec.GetName()] = r
	d.enter(ctx, r, placing)
}

func (d *deployment) onInspected(ctx actor.Context, msg *inspected) {
	if msg.incarnation != d.incarnation || msg.path != d.spec.GetPath() {
		return
	}
	if msg.err != nil { // the next tick looks again
		d.fail(&messages.Refused{Reason: messages.Reason_REASON_LOAD_FAILED, Detail: msg.err.Error()})
		return
	}
	d.facts = &msg.facts
	d.reconcile(ctx)
}

// enter moves a replica to a phase and says what the phase says.
func (d *deployment) enter(ctx actor.Context, r *copyOf, to phase) {
	r.phase, r.since = to, time.Now()
	d.push(ctx, r)
}

// push says, or says again, what brings a replica to its next phase.
func (d *deployment) push(ctx actor.Context, r *copyOf) {
	name := r.spec.GetName()
	switch r.phase {
	case placing:
		r.gpus = make(map[string]*messages.GpuStatus)
		for _, pid := range d.GPUs {
			ctx.Request(pid, &messages.GetGpu{RequestId: name})
		}
		supervise.After(ctx, placeWithin, &placeNow{d.incarnation, name})
	case starting:
		ctx.Request(d.Replicas, &messages.StartReplica{
			RequestId: name, Replica: r.spec, Deployment: &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()},
		})
	case loading:
		ctx.Request(r.pid, &messages.GetReplica{RequestId: name})
	case draining:
		if time.Since(r.since) > drainWithin || r.status.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING &&
			r.status.GetState() != messages.ReplicaState_REPLICA_STATE_DRAINING {
			d.enter(ctx, r, stopping)
			return
		}
		ctx.Request(r.pid, &messages.DrainReplica{RequestId: name})
	case stopping:
		ctx.Request(d.Replicas, &messages.StopReplica{RequestId: name, Replica: name})
	case unloading:
		ctx.Request(d.GPUs[r.spec.GetGpu()], &messages.UnloadModel{RequestId: name, Lease: name})
	}
}

func (d *deployment) onGPU(ctx actor.Context, msg *messages.GpuStatus) {
	for name, r := range d.replicas {
		if r.phase == placing {
			r.gpus[msg.GetName()] = msg
			if len(r.gpus) == len(d.GPUs) {
				d.choose(ctx, name, r)
			}
		}
	}
}

// onPlaceNow: a GPU that has not answered by now is not a candidate.
func (d *deployment) onPlaceNow(ctx actor.Context, msg *placeNow) {
	if r := d.replicas[msg.replica]; msg.incarnation == d.incarnation && r != nil && r.phase == placing && len(r.gpus) > 0 {
		d.choose(ctx, msg.replica, r)
	}
}

// choose decides on a GPU: the one that still holds the replica's lease, else by core/plan.
func (d *deployment) choose(ctx actor.Context, name string, r *copyOf) {
	gpu := d.homes[name]
	if _, ok := r.gpus[gpu]; !ok {
		best, why, ok := plan.Place(d.need(), d.candidates(r))
		if !ok {
			delete(d.replicas, name) // the next tick tries again
			if d.failure == nil {    // else what a GPU itself said tells more
				d.fail(&messages.Refused{Reason: messages.Reason_REASON_NO_MEMORY, Detail: "no GPU for replica " + name + ": " + why})
			}
			return
		}
		gpu = best.Name
		d.Log.Info().Str("replica", name).Str("gpu", gpu).Str("why", why).Msg("replica placed")
	}
	r.spec = proto.Clone(r.spec).(*messages.ReplicaSpec)
	r.spec.Gpu = gpu
	d.enter(ctx, r, starting)
}

// need is the least memory a replica can live in: weights, workspace and one KV block.
func (d *deployment) need() int64 {
	limits := engine.Limits{StepTokens: int(d.spec.GetStepTokens()), MaxSequences: int(d.spec.GetMaxSequences())}
	return d.facts.WeightBytes + d.facts.WorkspaceBytes(limits) + d.facts.KVTokenBytes*int64(d.spec.GetBlockTokens())
}

func (d *deployment) candidates(r *copyOf) []plan.GPU {
	var all []plan.GPU
	for name, s := range r.gpus {
		g := plan.GPU{
			Name: name, Free: int64(s.GetFreeBytes()), Avoid: time.Now().Before(d.avoid[name]),
			Draining: s.GetState() == messages.GpuState_GPU_STATE_DRAINING,
		}
		for _, other := range d.replicas {
			if other != r && other.spec.GetGpu() == name {
				g.Siblings++
			}
		}
		all = append(all, g)
	}
	return all
}

func (d *deployment) onReplicaStarted(ctx actor.Context, msg *messages.StartReplicaResult) {
	r := d.replicas[msg.GetRequestId()]
	if r == nil || r.phase != starting || msg.GetStarted() == nil {
		return // a refusal is asked again with the next tick
	}
	r.pid = pidOf(msg.GetStarted().GetActor())
	ctx.Watch(r.pid)
	d.enter(ctx, r, loading)
}

// onChanged takes a replica's report.
func (d *deployment) onChanged(ctx actor.Context, status *messages.ReplicaStatus, failure *messages.Refused) {
	r := d.replicas[status.GetName()]
	if r == nil {
		return
	}
	r.status, r.routed = status, 0
	if r.pid == nil {
		r.pid = pidOf(status.GetActor())
		ctx.Watch(r.pid)
	}
	switch status.GetState() {
	case messages.ReplicaState_REPLICA_STATE_SERVING:
		if r.phase == starting || r.phase == loading {
			d.failure = nil
			delete(d.homes, status.GetName())
			d.enter(ctx, r, up)
			d.Publish("replica.serving", status.GetName(), "on "+status.GetGpu())
		}
	case messages.ReplicaState_REPLICA_STATE_FAILED:
		if r.phase != starting && r.phase != loading {
			return
		}
		if failure == nil {
			failure = &messages.Refused{Reason: messages.Reason_REASON_LOAD_FAILED, Detail: "replica " + status.GetName() + " failed to load"}
		}
		d.avoid[status.GetGpu()] = time.Now().Add(avoidFor)
		d.facts = nil // the folder may have changed since it was inspected
		d.fail(failure)
		d.enter(ctx, r, stopping)
	}
	d.reconcile(ctx)
}

// move takes a replica from one phase to the next.
func (d *deployment) move(ctx actor.Context, name string, from, to phase) {
	if r := d.replicas[name]; r != nil && r.phase == from {
		d.enter(ctx, r, to)
	}
}

func (d *deployment) onUnloaded(ctx actor.Context, msg *messages.UnloadModelResult) {
	r := d.replicas[msg.GetRequestId()]
	if r == nil || r.phase != unloading || msg.GetUnloaded() == nil {
		return
	}
	delete(d.replicas, msg.GetRequestId())
	d.Publish("replica.stopped", msg.GetRequestId(), "its memory is free")
	d.reconcile(ctx)
}

// onTerminated: a replica that was to live is gone. Its lease is still on its GPU, where the next one adopts it.
func (d *deployment) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	for name, r := range d.replicas {
		if r.pid.GetId() != msg.GetWho().GetId() || r.phase > up {
			continue
		}
		d.Log.Warn().Str("replica", name).Msg("replica gone")
		d.Publish("replica.lost", name, "it crashed too often, or its group restarted")
		d.homes[name] = r.spec.GetGpu()
		delete(d.replicas, name)
	}
	d.reconcile(ctx)
}

func (d *deployment) fail(why *messages.Refused) {
	if d.failure.GetDetail() != why.GetDetail() {
		d.Log.Warn().Str("model", d.Name).Stringer("reason", why.GetReason()).Str("detail", why.GetDetail()).Msg("deployment failed")
		d.Publish("model.failed", d.Name, why.GetDetail())
	}
	d.failure = why
}
