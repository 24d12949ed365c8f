package deployment

import (
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/messages"
)

const (
	calmFor  = 10 * time.Second // how long nothing must have changed before a replica is moved to a better place
	sorryFor = 5 * time.Minute  // likewise, after one did not come up there
)

// weighNow is a note to self: the GPUs had the time to answer.
type weighNow struct{ incarnation uint64 }

// rebalance looks, while nothing changes, whether a replica is better placed elsewhere, as when a node has come back. The
// GPUs are asked only where that may be so by what runs where.
func (d *deployment) rebalance(ctx actor.Context) {
	if d.survey != nil || time.Now().Before(d.calm) || !d.atRest() {
		return
	}
	gpus := make(map[place]*messages.GpuStatus)
	for name, n := range d.nodes {
		for _, gpu := range n.member.GetGpus() {
			gpus[place{name, gpu}] = &messages.GpuStatus{MemoryBytes: math.MaxInt64 / 2}
		}
	}
	if _, ok := schedule.Rebalance(d.copies(), d.candidates(gpus, nil)); !ok {
		return
	}
	d.survey = d.askGPUs(ctx, d.Name)
	supervise.After(ctx, placeWithin, &weighNow{d.incarnation})
}

// onWeighNow begins the move, where there is room: a substitute is started on the better place, and once it serves, the
// replica that moves is drained as any other that is one too many.
func (d *deployment) onWeighNow(ctx actor.Context, msg *weighNow) {
	if msg.incarnation != d.incarnation {
		return
	}
	survey := d.survey
	d.survey = nil
	if !d.atRest() {
		return
	}
	d.rest(calmFor)
	move, ok := schedule.Rebalance(d.copies(), d.candidates(survey, nil))
	if !ok {
		return
	}
	d.Log.Info().Str("replica", move.Replica).Str("why", move.Why).Msg("replica moves")
	d.Publish("replica.moving", move.Replica, move.Why)
	name := d.unused()
	substitute := &copyOf{spec: d.replicaSpec(name)}
	substitute.spec.Node, substitute.spec.Gpu = move.To.Node, move.To.Name
	d.replicas[name], d.replicas[move.Replica].substitute = substitute, name
	d.enter(ctx, substitute, starting)
}

// atRest reports whether there is nothing else to do: as many serve as were asked for, as they were asked for, where they may stay.
func (d *deployment) atRest() bool {
	if d.spec == nil || d.removing || d.deposed || !d.acquainted() || len(d.strays) > 0 || len(d.replicas) != int(d.spec.GetReplicas()) {
		return false
	}
	for _, r := range d.replicas {
		at := place{r.spec.GetNode(), r.spec.GetGpu()}
		if !r.ready() || !d.current(r) || r.holds == (hbm.Need{}) || d.sick[at] || !d.nodes[at.node].open() {
			return false
		}
	}
	return true
}

// rest keeps replicas from being moved for a while.
func (d *deployment) rest(least time.Duration) {
	if until := time.Now().Add(least); until.After(d.calm) {
		d.calm = until
	}
}

// moves reports whether a replica's substitute is on its way, or there.
func (d *deployment) moves(r *copyOf) bool {
	s := d.replicas[r.substitute]
	return s != nil && s.phase <= up
}

// substitutes reports whether a replica was started for another one to move to, and that one is still as it was.
func (d *deployment) substitutes(name string) bool {
	for _, r := range d.replicas {
		if r.substitute == name && r.phase == up {
			return true
		}
	}
	return false
}

// held is what a replica has of a GPU. It is moved only where it has as much.
func held(s *messages.GpuStatus, owner string) (n hbm.Need) {
	for _, l := range s.GetLeases() {
		switch bytes := int64(l.GetPages()) * hbm.PageBytes; {
		case l.GetOwner() != owner:
		case l.GetKind() == "kv":
			n.Min, n.MinAlone, n.Max = bytes, bytes, bytes
		default:
			n.Fixed += bytes
		}
	}
	return n
}
