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
	stableFor   = 10 * time.Second // how long nothing must have changed before a replica is moved to a better place
	moveBackoff = 5 * time.Minute  // likewise, after one did not come up there
)

// surveyTimeout is a note to self: the GPUs had the time to answer.
type surveyTimeout struct{ incarnation uint64 }

// rebalance looks, while nothing changes, whether a replica is better placed elsewhere, as when a node has come back. The
// GPUs are asked only where that may be so by what runs where.
func (d *deployment) rebalance(ctx actor.Context) {
	if d.gpuSurvey != nil || time.Now().Before(d.stableUntil) || !d.stable() {
		return
	}
	gpus := make(map[location]*messages.GpuStatus)
	for name, n := range d.nodes {
		for _, gpu := range n.member.GetGpus() {
			gpus[location{name, gpu}] = &messages.GpuStatus{MemoryBytes: math.MaxInt64 / 2}
		}
	}
	if _, ok := schedule.Rebalance(d.scheduleInput(), d.candidates(gpus, nil)); !ok {
		return
	}
	d.gpuSurvey = d.queryGPUs(ctx, d.Name)
	supervise.After(ctx, gpuReplyTimeout, &surveyTimeout{d.incarnation})
}

// onSurveyTimeout begins the move, where there is room: a substitute is started on the better place, and once it serves, the
// replica that moves is drained as any other that is one too many.
func (d *deployment) onSurveyTimeout(ctx actor.Context, msg *surveyTimeout) {
	if msg.incarnation != d.incarnation {
		return
	}
	survey := d.gpuSurvey
	d.gpuSurvey = nil
	if !d.stable() {
		return
	}
	d.extendStable(stableFor)
	move, ok := schedule.Rebalance(d.scheduleInput(), d.candidates(survey, nil))
	if !ok {
		return
	}
	d.Log.Info().Str("replica", move.Copy).Str("why", move.Why).Msg("replica moves")
	d.Publish("replica.moving", move.Copy, move.Why)
	name := d.newReplicaName()
	substitute := &replicaState{spec: d.replicaSpec(name)}
	substitute.spec.Node, substitute.spec.Gpu = move.To.Node, move.To.Name
	d.replicas[name], d.replicas[move.Copy].substitute = substitute, name
	d.setPhase(ctx, substitute, starting)
}

// stable reports whether there is nothing else to do: as many serve as were asked for, as they were asked for, where they may stay.
func (d *deployment) stable() bool {
	if d.spec == nil || d.removing || d.fenced || !d.allNodesReported() || len(d.orphans) > 0 ||
		len(d.replicas) != int(d.spec.GetReplicas()) {
		return false
	}
	for _, r := range d.replicas {
		at := location{r.spec.GetNode(), r.spec.GetGpu()}
		if !r.serving() || !d.current(r) || r.leased == (hbm.Need{}) || d.quarantined[at] ||
			!d.nodes[at.node].schedulable() {
			return false
		}
	}
	return true
}

// rest keeps replicas from being moved for a while.
func (d *deployment) extendStable(least time.Duration) {
	if until := time.Now().Add(least); until.After(d.stableUntil) {
		d.stableUntil = until
	}
}

// moves reports whether a replica's substitute is on its way, or there.
func (d *deployment) hasSubstitute(r *replicaState) bool {
	s := d.replicas[r.substitute]
	return s != nil && s.phase <= up
}

// isSubstitute reports whether a replica was started for another one to move to, and that one is still as it was.
func (d *deployment) isSubstitute(name string) bool {
	for _, r := range d.replicas {
		if r.substitute == name && r.phase == up {
			return true
		}
	}
	return false
}

// held is what a replica has of a GPU. It is moved only where it has as much.
func leasedMemory(s *messages.GpuStatus, owner string) (n hbm.Need) {
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
