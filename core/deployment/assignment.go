package deployment

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Assignment is a replica that is to be there.
type Assignment struct {
	Node  string
	GPUs  []string // of the node
	Why   string
	After []string // replicas that have to leave before it starts
	At    time.Time
}

// location returns the GPU of a replica that uses only one.
func (a Assignment) location() (at Location, single bool) {
	if len(a.GPUs) != 1 {
		return Location{Node: a.Node}, false
	}
	return Location{a.Node, a.GPUs[0]}, true
}

// attempt is an assignment whose replica failed. It is forgotten with the assignment.
type attempt struct {
	at     time.Time // of the assignment
	why    string
	when   time.Time
	served bool // before it failed
}

// assignedAt reports whether a replica is to be on a GPU. What is there stays until there is a plan.
func (d *Deployment) assignedAt(name string, at Location) bool {
	if !d.spec.Planned {
		return true
	}
	a, ok := d.spec.Assigned[name]
	to, single := a.location()
	return ok && single && to == at
}

// failAssignment notes that the replica of an assignment failed, so that it is not started again. A
// replica that is on another GPU than its assignment fails without one.
func (d *Deployment) failAssignment(name string, at Location, why string, now time.Time) {
	a, ok := d.spec.Assigned[name]
	if to, single := a.location(); ok && (!single || to == at) {
		r := d.replicas[name]
		d.attempts[name] = attempt{a.At, cmp.Or(why, "replica "+name+" failed"), now, r != nil && r.served}
	}
}

// failSplit fails an assignment to several devices, which no backend supports.
func (d *Deployment) failSplit(name string, a Assignment, now time.Time) {
	f := Failure{Reason: Unsupported, Detail: fmt.Sprintf("replica %s divided among %d devices is not supported by "+
		"the %s backend; deploy the model with tensor_parallel 1", name, len(a.GPUs), d.spec.Engine.Kind.OrNative())}
	d.failAssignment(name, Location{}, f.Detail, now)
	d.fail(f)
}

// comparePlan notes whether the next plan has fewer replicas than the last one. The first plan may.
func (d *Deployment) comparePlan(next Spec) {
	if reflect.DeepEqual(d.spec.Assigned, next.Assigned) {
		return
	}
	d.shrinks = !d.hasPlan || next.Replicas < d.planReplicas
	d.hasPlan, d.planReplicas = true, next.Replicas
}

// beginPlan notes which replicas are withdrawn, and forgets what belongs to earlier assignments.
func (d *Deployment) beginPlan(last Spec) {
	for name, r := range d.replicas {
		_, was := last.Assigned[name]
		_, is := d.spec.Assigned[name]
		r.withdrawn = (r.withdrawn || was) && !is
	}
	for name, last := range d.attempts {
		if a, ok := d.spec.Assigned[name]; !ok || !a.At.Equal(last.at) {
			delete(d.attempts, name)
		}
	}
	for name := range d.absentSince {
		if _, ok := d.spec.Assigned[name]; !ok {
			delete(d.absentSince, name)
		}
	}
}

// isPlan reports whether a new spec is only another plan: other assignments, and perhaps another number of
// replicas. One that wakes the deployment is a new beginning.
func (d *Deployment) isPlan(next Spec) bool {
	last := d.spec
	same := reflect.DeepEqual(last.Assigned, next.Assigned) && slices.Equal(last.Withdrawn, next.Withdrawn)
	if d.state != Active || !next.Planned || same {
		return false
	}
	next.Planned, next.Assigned, next.Withdrawn, next.Replicas = last.Planned, last.Assigned, last.Withdrawn,
		last.Replicas
	return reflect.DeepEqual(last, next)
}
