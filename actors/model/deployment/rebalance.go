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
	stableFor   = 10 * time.Second // without changes before a replica may move
	moveBackoff = 5 * time.Minute  // before the next move after one failed
)

// surveyTimeout is a note to self: the time for the GPUs' replies is over.
type surveyTimeout struct{ incarnation uint64 }

// rebalance looks for a replica that is better placed elsewhere, for example after a node came
// back, while nothing else changes. It queries the GPUs only if a better place is possible by the
// number of replicas alone.
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

// onSurveyTimeout starts a move if there is room: it starts a substitute on the better GPU. Once
// the substitute serves, the moved replica is drained as surplus.
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
	d.Log.Info().Str("replica", move.Replica).Str("why", move.Why).Msg("replica moving")
	d.Publish("replica.moving", move.Replica, move.Why)
	name := d.newReplicaName()
	substitute := &replicaState{spec: d.replicaSpec(name)}
	substitute.spec.Node, substitute.spec.Gpu = move.To.Node, move.To.Name
	d.replicas[name], d.replicas[move.Replica].substitute = substitute, name
	d.setPhase(ctx, substitute, starting)
}

// stable reports whether nothing else is to be done: the requested number of replicas serves, all
// are current, and none is on a quarantined GPU or a draining node.
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

// extendStable allows no move for at least this period.
func (d *deployment) extendStable(period time.Duration) {
	if until := time.Now().Add(period); until.After(d.stableUntil) {
		d.stableUntil = until
	}
}

// hasSubstitute reports whether a replica's substitute is starting or serving.
func (d *deployment) hasSubstitute(r *replicaState) bool {
	s := d.replicas[r.substitute]
	return s != nil && s.phase <= up
}

// isSubstitute reports whether a replica was started to replace another one that still serves.
func (d *deployment) isSubstitute(name string) bool {
	for _, r := range d.replicas {
		if r.substitute == name && r.phase == up {
			return true
		}
	}
	return false
}

// leasedMemory returns the memory that a replica has on its GPU. The replica is moved only to a GPU
// with room for as much.
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
