package deployment

import (
	"fmt"
	"strings"
	"time"

	"troupe/core/schedule"
)

// Condition is the condition of a deployment, for operators.
type Condition uint8

const (
	ConditionPending  Condition = iota // no replica serves yet
	ConditionReady                     // the requested number of replicas serves
	ConditionDegraded                  // fewer serve, or something is wrong with them
	ConditionFailed                    // none serves, and the last attempt failed; it is retried
	ConditionRemoving                  // it is deleted
	ConditionStopped                   // no replica is requested, until an operator starts it
	ConditionAsleep                    // no replica is requested, until a request wakes it
	ConditionWaking                    // it may sleep, is awake, and no replica serves yet
	ConditionStandby                   // no replica is to serve, and all are on standby
	ConditionParked                    // no replica is to be there, until an operator activates it
)

// String returns the name of the condition.
func (c Condition) String() string {
	return [...]string{"pending", "ready", "degraded", "failed", "removing", "stopped", "asleep", "waking", "standby",
		"parked"}[c]
}

// Status is the status of a deployment.
type Status struct {
	Condition Condition
	Detail    string
	Failure   *Failure      // of the last attempt; nil after a success
	Serving   int           // replicas that serve
	Waiting   int           // requests that wait until a replica serves
	Wakes     int           // of these, those that may wake the deployment
	Oldest    time.Duration // age of the oldest of these; 0: there is none
	// Reporting has the actors of the replicas that have reported, in the order of their names.
	Reporting []Ref
	// Preemptions in progress, and those that have ended and are still stored.
	Preemptions []PreemptionStatus
	// Replicas that are assigned, or there.
	Replicas []ReplicaProgress
}

// Status returns the status of the deployment.
func (d *Deployment) Status() Status {
	s := Status{
		Failure: d.failure, Waiting: d.wake.sum(), Wakes: d.wake.wakes(), Oldest: d.wake.oldest(d.now),
		Replicas: d.progress(),
	}
	for _, name := range sorted(d.replicas) {
		r := d.replicas[name]
		if r.serving() {
			s.Serving++
		}
		if r.report != nil {
			s.Reporting = append(s.Reporting, r.report.Actor)
		}
	}
	for _, p := range d.preemptions {
		s.Preemptions = append(s.Preemptions, PreemptionStatus{p.Preemption, p.machine.Progress()})
	}
	s.Condition, s.Detail = d.condition(s.Serving)
	return s
}

// announce reports that the status may have changed.
func (d *Deployment) announce() {
	serving := 0
	for _, r := range d.replicas {
		if r.serving() {
			serving++
		}
	}
	condition, _ := d.condition(serving)
	ready := condition == ConditionReady
	if ready && !d.wasReady {
		d.emit(Ready{d.wantedActive()})
	}
	d.wasReady = ready
	d.emit(Announce{})
}

func (d *Deployment) condition(serving int) (Condition, string) {
	total, want, standing := d.spec.Wanted(), d.wantedActive(), d.standing()
	switch {
	case d.state == Removing:
		return ConditionRemoving, "its replicas are draining"
	case d.state == Active && d.spec.allParked() && len(d.replicas) > 0:
		return ConditionPending, "the model is being parked; the remaining replicas are draining"
	case d.state == Active && d.spec.allParked():
		return ConditionParked, "parked; " + d.remedy() + " makes it serve"
	case d.state == Active && d.spec.Rest == schedule.Asleep && len(d.replicas) > 0:
		return ConditionAsleep, "it falls asleep; its replicas are draining"
	case d.state == Active && d.spec.Rest == schedule.Asleep && d.wokenInVain():
		return ConditionFailed, d.failure.Detail
	case d.state == Active && d.spec.Rest == schedule.Asleep:
		return ConditionAsleep, "a request wakes it"
	case d.state == Active && total == 0 && d.spec.Replicas > 0:
		return ConditionStopped, "all replicas were preempted; models.scale starts them"
	case d.state == Active && total == 0 && len(d.replicas) > 0:
		return ConditionStopped, "scaled to 0 replicas; the remaining ones are draining"
	case d.state == Active && total == 0:
		return ConditionStopped, "scaled to 0 replicas; models.scale or models.activate starts it"
	case d.state == Active && want == 0 && standing >= total:
		return ConditionStandby, "all replicas are on standby; " + d.remedy() + " makes them serve"
	case d.state == Active && want == 0 && d.failure == nil:
		return ConditionPending, fmt.Sprintf("%d of %d replicas are on standby", standing, total)
	case d.state == Active && want > 0 && serving >= want && d.degradedCause() != "":
		return ConditionDegraded, fmt.Sprintf("%d of %d replicas serve, but %s", serving, want, d.degradedCause())
	case d.state == Active && want > 0 && serving >= want:
		return ConditionReady, d.standbyDetail()
	case serving > 0:
		detail := fmt.Sprintf("%d of %d replicas serve", serving, want)
		if d.failure != nil {
			detail += "; " + d.failure.Detail
		}
		return ConditionDegraded, detail
	case d.failure != nil && d.mayRecover():
		return ConditionPending, d.failure.Detail
	case d.failure != nil:
		return ConditionFailed, d.failure.Detail
	}
	if d.waitsForPlanner() {
		return ConditionPending, "no replica serves yet; it waits for the planner"
	}
	if d.state == Active && d.spec.Sleeps {
		return ConditionWaking, fmt.Sprintf("no replica serves yet; requests waiting: %d", d.wake.sum())
	}
	return ConditionPending, "no replica serves yet"
}

// remedy returns what makes a deployment serve that an operator keeps from serving.
func (d *Deployment) remedy() string {
	if d.spec.Sleeps && d.spec.Rest != schedule.Stopped {
		return "a request or models.activate"
	}
	return "models.activate"
}

// standbyDetail says how many replicas are wanted on standby, and which are parked; empty: none.
func (d *Deployment) standbyDetail() string {
	var parts []string
	if n := d.spec.Wanted() - d.wantedActive(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d replicas are to be on standby", n, d.spec.Replicas))
	}
	if names := d.spec.parked(); len(names) > 0 {
		parts = append(parts, "parked: "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "; ")
}

// mayRecover reports whether the deployment may soon serve in spite of its failure, so that requests wait: a
// GPU is quarantined or a replica kept exiting on it, and another one may have room; a replica lacks a GPU, and
// another replica is starting, or leaves and makes room; the planner expects room soon; or a node is awaited.
func (d *Deployment) mayRecover() bool {
	starting, leaving := false, false
	for _, r := range d.replicas {
		starting = starting || r.phase == Starting || r.phase == Loading
		leaving = leaving || r.phase == Draining || r.phase == Stopping
	}
	elsewhere := d.failure.Reason == Quarantined || d.failure.elsewhere
	starting = starting || d.awaits()
	return elsewhere && (!d.unplaced || starting) || d.failure.unplaced && (starting || leaving || d.failure.later)
}

// degradedCause returns the problem of a deployment whose requested number of replicas serves;
// empty if there is none.
func (d *Deployment) degradedCause() string {
	earlier, folderFault := 0, ""
	for _, r := range d.replicas {
		if r.serving() && !d.current(r) {
			earlier++
		}
		if why := r.last().FolderFault; why != "" && (folderFault == "" || why < folderFault) {
			folderFault = why
		}
	}
	switch {
	case earlier > 0 && d.failure != nil:
		return fmt.Sprintf("%d of them have an earlier spec: %s", earlier, d.failure.Detail)
	case folderFault != "":
		return folderFault
	}
	return ""
}
