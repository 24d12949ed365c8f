package deployment

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/schedule"
	"troupe/messages"
)

// reconcile applies changes until the next one has to wait.
func (d *deployment) reconcile(ctx actor.Context) {
	if d.spec == nil || d.fenced || !d.allNodesReported() {
		return
	}
	for range len(d.replicas) + 1 {
		change := schedule.NextChange(int(d.spec.GetReplicas()), d.removing, d.noRoom, d.scheduleInput())
		switch change.Kind {
		case schedule.Add:
			if !d.addReplica(ctx) {
				d.publishStatus(ctx)
				return
			}
		case schedule.Remove:
			r := d.replicas[change.Replica]
			d.Log.Info().Str("replica", change.Replica).Str("why", change.Why).Msg("replica draining")
			d.Publish("replica.draining", change.Replica, change.Why)
			r.drainCause = change.Why
			d.setPhase(ctx, r, draining)
		case schedule.Deleted:
			ctx.Send(ctx.Parent(), &removed{d.Name, d.Term})
			d.publishStatus(ctx)
			return
		case schedule.NoChange:
			d.publishStatus(ctx)
			return
		}
	}
	d.publishStatus(ctx)
}

// scheduleInput returns the replicas as core/schedule sees them.
func (d *deployment) scheduleInput() []schedule.Replica {
	copies := make([]schedule.Replica, 0, len(d.replicas))
	for name, r := range d.replicas {
		at := location{r.spec.GetNode(), r.spec.GetGpu()}
		c := schedule.Replica{
			Name: name, Node: at.node, GPU: at.name, Current: d.current(r),
			Evicted: r.phase > starting && (d.quarantined[at] || !d.nodes[at.node].schedulable()),
			Moving:  d.hasSubstitute(r), Load: int(r.load()), Need: r.leased,
		}
		switch {
		case r.phase <= starting:
			c.Stage = schedule.Unplaced
		case r.phase == loading:
			c.Stage = schedule.Loading
		case r.phase == up:
			c.Stage = schedule.Serving
		default:
			c.Stage = schedule.Draining
		}
		copies = append(copies, c)
	}
	return copies
}

// replicaSpec returns the current spec of a replica, without a placement.
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

// addReplica starts placing a new replica and reports true. If the model has not been inspected, it
// starts the inspection and reports false. It prefers the name of an exited replica whose lease
// remains.
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

// newReplicaName returns the first name that no replica has or may come back with.
func (d *deployment) newReplicaName() string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%d", d.Name, n)
		if _, left := d.lastPlacement[name]; d.replicas[name] == nil && !d.reservedNames[name] && !left {
			return name
		}
	}
}

// setPhase moves a replica to a phase and sends the phase's command.
func (d *deployment) setPhase(ctx actor.Context, r *replicaState, to phase) {
	r.phase, r.since = to, time.Now()
	d.extendStable(stableFor)
	d.sendCommand(ctx, r)
}
