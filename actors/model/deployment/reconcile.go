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
	if d.spec == nil || d.deposed || !d.acquainted() {
		return
	}
	for range len(d.replicas) + 1 {
		change := schedule.NextChange(int(d.spec.GetReplicas()), d.removing, d.noRoom, d.copies())
		switch change.Kind {
		case schedule.Add:
			if !d.add(ctx) {
				d.tell(ctx)
				return
			}
		case schedule.Remove:
			r := d.replicas[change.Replica]
			d.Log.Info().Str("replica", change.Replica).Str("why", change.Why).Msg("replica leaves")
			d.Publish("replica.draining", change.Replica, change.Why)
			r.leaves = change.Why
			d.enter(ctx, r, draining)
		case schedule.Deleted:
			ctx.Send(ctx.Parent(), &removed{d.Name, d.Term})
			d.tell(ctx)
			return
		case schedule.NoChange:
			d.tell(ctx)
			return
		}
	}
	d.tell(ctx)
}

// copies are the replicas as core/schedule sees them.
func (d *deployment) copies() []schedule.Replica {
	copies := make([]schedule.Replica, 0, len(d.replicas))
	for name, r := range d.replicas {
		at := place{r.spec.GetNode(), r.spec.GetGpu()}
		c := schedule.Replica{
			Name: name, Node: at.node, GPU: at.name, Current: d.current(r), Evicted: r.phase > starting && (d.sick[at] ||
				!d.nodes[at.node].open()),
			Moving: d.moves(r), Load: int(r.load()), Need: r.holds,
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

// replicaSpec is what a replica of this name is to be. Its place is not chosen yet.
func (d *deployment) replicaSpec(name string) *messages.ReplicaSpec {
	return &messages.ReplicaSpec{
		Name: name, Model: d.Name, Path: d.spec.GetPath(), BlockTokens: d.spec.GetBlockTokens(),
		KvBlocks: d.spec.GetKvBlocks(), MaxSequences: d.spec.GetMaxSequences(), MaxWaiting: d.spec.GetMaxWaiting(),
		StepTokens: d.spec.GetStepTokens(), Priority: d.spec.GetPriority(),
		AdapterPages: d.spec.GetAdapterPages(), MaxAdapters: cmp.Or(d.spec.GetMaxAdapters(), messages.DefaultAdapters),
		MaxAdapterRank: cmp.Or(d.spec.GetMaxAdapterRank(), messages.DefaultAdapterRank),
		RevisionDigest: d.spec.GetRevisionDigest(), Deploy: d.spec.GetDeploy(),
	}
}

// add begins a replica's life, once the model is known. It takes up the name of one whose lease is left, or a new one.
func (d *deployment) add(ctx actor.Context) bool {
	if d.facts == nil {
		d.inspect(ctx)
		return false
	}
	name := ""
	for n := range d.homes {
		if d.replicas[n] == nil && (name == "" || n < name) {
			name = n
		}
	}
	if name == "" {
		name = d.unused()
	}
	r := &copyOf{spec: d.replicaSpec(name)}
	d.replicas[name] = r
	d.enter(ctx, r, placing)
	return true
}

// unused is a name for a replica that no other one has, or may come back with.
func (d *deployment) unused() string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%d", d.Name, n)
		if _, left := d.homes[name]; d.replicas[name] == nil && !d.lost[name] && !left {
			return name
		}
	}
}

// enter moves a replica to a phase and says what the phase says.
func (d *deployment) enter(ctx actor.Context, r *copyOf, to phase) {
	r.phase, r.since = to, time.Now()
	d.rest(calmFor)
	d.push(ctx, r)
}
