package replicaset

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/messages"
)

const (
	checkLeasesEvery = 5 * time.Second
	// orphanedAfter is how long a lease without a replica is kept. A deployment that starts the
	// replica again within this time finds the weights on the device.
	orphanedAfter = 30 * time.Second
)

// checkLeases is a message to self.
type checkLeases struct{ incarnation uint64 }

// lease is device memory that is leased to a replica.
type lease struct{ gpu, replica string }

// orphans are the leases without a replica, and since when. A replica leaves its lease behind when
// this group crashes, and nothing takes it over if the deployment has placed the replica elsewhere
// meanwhile.
type orphans map[lease]time.Time

// seen records the leases of a device, and which of them have a replica. It returns the replicas
// whose leases are due to be released, in order.
func (o orphans) seen(gpu string, leased []string, known map[string]bool, now time.Time) (due []string) {
	for l := range o {
		if l.gpu == gpu && (known[l.replica] || !slices.Contains(leased, l.replica)) {
			delete(o, l)
		}
	}
	for _, replica := range leased {
		l := lease{gpu, replica}
		if known[replica] {
			continue
		}
		if since, ok := o[l]; !ok {
			o[l] = now
		} else if now.Sub(since) >= orphanedAfter {
			due = append(due, replica)
		}
	}
	return due
}

func (g *group) onCheckLeases(ctx actor.Context, msg *checkLeases) {
	if msg.incarnation != g.incarnation {
		return
	}
	supervise.After(ctx, checkLeasesEvery, msg)
	for _, gpu := range g.GPUs {
		ctx.Request(g.GPU(gpu), &messages.GetGpu{})
	}
}

// onGPU releases the memory of replicas that no longer exist, and repeats what was not answered: the
// deployment that stopped a replica may be gone.
func (g *group) onGPU(ctx actor.Context, msg *messages.GpuStatus) {
	known, leased := make(map[string]bool), make(map[string]bool)
	for name := range g.replicas {
		known[name] = true
	}
	for _, l := range msg.GetLeases() {
		if l.GetKind() != "weights" { // they outlive replicas
			leased[l.GetOwner()] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.stopping)) {
		known[name] = true
		if s := g.stopping[name]; g.replicas[name] == nil && s.gpu == msg.GetName() {
			g.unload(ctx, name, s) // refused while it was loading, or the gpu actor crashed
		}
	}
	all := slices.Sorted(maps.Keys(leased))
	for _, replica := range g.orphans.seen(msg.GetName(), all, known, supervise.Now(ctx)) {
		g.Log.Warn().
			Str("replica", replica).
			Str("gpu", msg.GetName()).
			Msg("releasing the memory of a replica that is gone")
		s := &stoppingReplica{gpu: msg.GetName()}
		g.stopping[replica] = s
		g.unload(ctx, replica, s)
	}
}
