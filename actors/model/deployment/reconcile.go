package deployment

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/schedule"
	"troupe/messages"
)

// reconcile carries out one change after the other until the next one has to wait.
func (d *deployment) reconcile(ctx actor.Context) {
	if d.spec == nil || d.fenced || !d.allNodesReported() {
		return
	}
	for range len(d.replicas) + 1 {
		change := schedule.Next(int(d.spec.GetReplicas()), d.removing, d.noRoom, d.scheduleInput())
		switch change.Kind {
		case schedule.Add:
			if !d.addReplica(ctx) {
				d.publishStatus(ctx)
				return
			}
		case schedule.Remove:
			r := d.replicas[change.Copy]
			d.Log.Info().Str("replica", change.Copy).Str("why", change.Why).Msg("replica leaves")
			d.Publish("replica.draining", change.Copy, change.Why)
			r.drainCause = change.Why
			d.setPhase(ctx, r, draining)
		case schedule.Gone:
			ctx.Send(ctx.Parent(), &removed{d.Name, d.Term})
			d.publishStatus(ctx)
			return
		case schedule.Stay:
			d.publishStatus(ctx)
			return
		}
	}
	d.publishStatus(ctx)
}

// copies are the replicas as core/schedule sees them.
func (d *deployment) scheduleInput() []schedule.Copy {
	copies := make([]schedule.Copy, 0, len(d.replicas))
	for name, r := range d.replicas {
		at := location{r.spec.GetNode(), r.spec.GetGpu()}
		c := schedule.Copy{
			Name: name, Node: at.node, GPU: at.name, Current: d.current(r),
			Evicted: r.phase > starting && (d.quarantined[at] || !d.nodes[at.node].schedulable()),
			Moves:   d.hasSubstitute(r), Load: int(r.load()), Need: r.leased,
		}
		switch {
		case r.phase <= starting:
			c.Stage = schedule.Homeless
		case r.phase == loading:
			c.Stage = schedule.Coming
		case r.phase == up:
			c.Stage = schedule.Present
		default:
			c.Stage = schedule.Going
		}
		copies = append(copies, c)
	}
	return copies
}

// replicaSpec is what a replica of this name is to be. Its place is not chosen yet.
func (d *deployment) replicaSpec(name string) *messages.ReplicaSpec {
	return &messages.ReplicaSpec{
		Name: name, Model: d.Name, Path: d.spec.GetPath(), BlockTokens: d.spec.GetBlockTokens(),
		KvBlocks: d.spec.GetKvBlocks(), MaxSequences: d.spec.GetMaxSequences(), MaxWaiting: d.spec.GetMaxWaiting(),
		StepTokens: d.spec.GetStepTokens(), Priority: d.spec.GetPriority(),
		AdapterPages:   d.spec.GetAdapterPages(),
		MaxAdapters:    cmp.Or(d.spec.GetMaxAdapters(), messages.DefaultAdapters),
		MaxAdapterRank: cmp.Or(d.spec.GetMaxAdapterRank(), messages.DefaultAdapterRank),
		RevisionDigest: d.spec.GetRevisionDigest(), Deploy: d.spec.GetDeploy(),
	}
}

// add begins a replica's life, once the model is known. It takes up the name of one whose lease is left, or a new one.
func (d *deployment) addReplica(ctx actor.Context) bool {
	if d.facts == nil {
		d.inspect(ctx)
		return false
	}
	name := ""
	for n := range d.lastPlacement {
		if d.replicas[n] == nil && (name == "" || n < name) {
			name = n
		}
	}
	if name == "" {
		name = d.newReplicaName()
	}
	r := &replicaState{spec: d.replicaSpec(name)}
	d.replicas[name] = r
	d.setPhase(ctx, r, placing)
	return true
}

// unused is a name for a replica that no other one has, or may come back with.
func (d *deployment) newReplicaName() string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%d", d.Name, n)
		if _, left := d.lastPlacement[name]; d.replicas[name] == nil && !d.reservedNames[name] && !left {
			return name
		}
	}
}

// enter moves a replica to a phase and says what the phase says.
func (d *deployment) setPhase(ctx actor.Context, r *replicaState, to phase) {
	r.phase, r.since = to, time.Now()
	d.extendStable(stableFor)
	d.resend(ctx, r)
}
