package deployment

import (
	"math"
	"time"

	"troupe/core/hbm"
	"troupe/core/schedule"
)

// rebalance looks for a replica with a better GPU elsewhere, for example after a node came back. It
// does so only while nothing else changes, and it queries the GPUs only if the number of replicas
// per GPU permits a better place.
func (d *Deployment) rebalance(now time.Time) {
	if d.planned() || d.survey != nil || now.Before(d.stableUntil) || !d.stable(now) {
		return
	}
	answers := make(map[Location]*GPU)
	for _, at := range d.gpus(answers) {
		answers[at] = &GPU{At: at, Memory: hbm.Budget{Total: math.MaxInt64 / 2}}
	}
	if _, ok := schedule.Rebalance(d.scheduleInput(), d.candidates(answers, nil, now)); !ok {
		return
	}
	d.survey = make(map[Location]*GPU)
	d.emit(SurveyGPUs{d.gpus(d.survey)})
}

// onSurveyTimeout starts a move if there is room: it starts a substitute on the better GPU. Once
// the substitute serves, the moved replica is drained as surplus.
func (d *Deployment) onSurveyTimeout(now time.Time) {
	survey := d.survey
	d.survey = nil
	if survey == nil || !d.stable(now) {
		return
	}
	d.extendStable(stableFor, now)
	move, ok := schedule.Rebalance(d.scheduleInput(), d.candidates(survey, nil, now))
	if !ok {
		return
	}
	d.emit(Moving{move.Replica, move.Why})
	name := d.newReplicaName()
	d.replicas[move.Replica].substitute = name
	substitute := d.add(name, d.replicaSpec(name))
	substitute.spec.At = Location{move.To.Node, move.To.Name}
	d.fire(substitute, moveStarted, none, now)
}

// stable reports whether no other change is due: the requested number of replicas serves, all are
// current, and none is on a quarantined GPU or a draining node.
func (d *Deployment) stable(now time.Time) bool {
	if d.state != Active || !d.allNodesReported(now) || len(d.orphans) > 0 || len(d.replicas) != d.spec.Wanted() {
		return false
	}
	for _, r := range d.replicas {
		if !r.serving() || !d.current(r) || r.memory == (hbm.Need{}) || d.evicted(r) {
			return false
		}
	}
	return true
}

// extendStable prevents moves for at least the given period.
func (d *Deployment) extendStable(period time.Duration, now time.Time) {
	if until := now.Add(period); until.After(d.stableUntil) {
		d.stableUntil = until
	}
}

// evicted reports whether a replica's GPU is quarantined or its node is draining.
func (d *Deployment) evicted(r *replica) bool {
	return d.quarantined[r.spec.At] || !d.schedulable(r.spec.At.Node)
}

// hasSubstitute reports whether a replica's substitute is starting or serving.
func (d *Deployment) hasSubstitute(r *replica) bool {
	s := d.replicas[r.substitute]
	return s != nil && s.phase <= Up
}

// isSubstitute reports whether a replica was started to replace another one that still serves.
func (d *Deployment) isSubstitute(name string) bool {
	for _, r := range d.replicas {
		if r.substitute == name && r.phase == Up {
			return true
		}
	}
	return false
}
