package planner

import (
	"slices"
	"time"

	"troupe/core/schedule"
)

// Observation is the cluster as the router and the store of a node know it.
type Observation struct {
	Deployments []Deployment // by name
	Nodes       []Node       // live ones, by name
	Away        []schedule.Away

	byName map[string]int // indices of Deployments, filled by Find
}

// Node is a live node.
type Node struct {
	Name     string
	GPUs     []string
	Draining bool // on an operator's command
	Leaving  bool // it shuts down
}

// Deployment is a stored deployment, and what it reports.
type Deployment struct {
	// Model has the limits, memory and demand. Its HeldBy, if set, holds the deployment at Model.Replicas, until
	// HeldTill, if that is set.
	// Demand.Last and Demand.Capacities are set by the Machine.
	Model    schedule.Model
	Revision uint64       // of the stored value; 0: it was deleted
	Replicas int          // stored number, without those that an operator took away
	Planned  bool         // a planner has stored assignments
	Assigned []Assignment // as stored, by replica
	// Withdrawn has the replicas that the stored assignments withdraw. Other replicas that are there without an
	// assignment were lost and have come back; they serve until a plan decides about them.
	Withdrawn []string
	Term      uint64                 // of the planner that stored them
	Intended  int                    // Write.Intended of when they were stored
	Leader    string                 // node that leads the deployment; empty: none reports
	Reports   []Report               // replicas that are assigned, or there, by name
	Reserved  []string               // names that an operator has taken away
	Active    bool                   // there are requests now
	Adapters  []schedule.Adapter     // those that were requested lately, in the whole cluster
	Pools     []schedule.AdapterPool // of the replicas that serve and take adapters
}

// Assignment is a replica with its devices, as it is stored.
type Assignment struct {
	Replica string
	Devices []string // "node-a/gpu-0"
	Why     string
	After   []string // replicas that have to leave before it starts
	At      time.Time
}

// Report is how far a replica has come.
type Report struct {
	schedule.Placed
	At          time.Time // of the assignment that the deployment knows; zero: none
	Quarantined bool      // a device of it is
}

// Device is what a device reports of itself.
type Device struct {
	schedule.Device
	Kind string           // such as "NVIDIA H200"
	Held map[string]int64 // bytes of the replicas that have memory there, with weights that only they use
	// Files are the bytes of the weights that replicas use there, by the digest of their files.
	Files map[string]int64
	Use   map[string]float64 // share of its time and roofline that replicas use, as far as that is known
}

// Find returns the deployment of a name, or nil.
func (o *Observation) Find(name string) *Deployment {
	if o.byName == nil {
		o.byName = make(map[string]int, len(o.Deployments))
		for i := range o.Deployments {
			o.byName[o.Deployments[i].Model.Name] = i
		}
	}
	i, found := o.byName[name]
	if !found {
		return nil
	}
	return &o.Deployments[i]
}

// byReplica returns the stored assignments by replica, for those who look for many.
func (d *Deployment) byReplica() map[string]*Assignment {
	all := make(map[string]*Assignment, len(d.Assigned))
	for i := range d.Assigned {
		all[d.Assigned[i].Replica] = &d.Assigned[i]
	}
	return all
}

// offered reports whether a replica is there, and neither assigned nor withdrawn.
func (d *Deployment) offered(r Report, assigned bool) bool {
	return d.Planned && d.Revision != 0 && !assigned && !slices.Contains(d.Withdrawn, r.Name) &&
		r.Progress > schedule.Assigned && r.Progress < schedule.Leaving
}

// holdEnded reports whether the time of a hold has passed, so that the next write ends it. A deployment that does not
// report is not changed, and its hold stays.
func (d *Deployment) holdEnded(now time.Time) bool {
	m := &d.Model
	return d.Revision != 0 && d.Leader != "" && m.HeldBy != "" && !m.HeldTill.IsZero() && !now.Before(m.HeldTill)
}

// undecided reports whether nothing is stored for a deployment: it was deleted, or no planner has planned it yet and
// its memory is unknown.
func (d *Deployment) undecided() bool {
	return d.Revision == 0 || !d.Planned && (d.Leader == "" || !d.Model.Sized && d.Model.Max > 0)
}

// placed returns the replicas of a deployment that a plan starts from. One that an operator has taken away is leaving,
// or is left out.
func (d *Deployment) placed() (all []schedule.Placed) {
	all = make([]schedule.Placed, 0, len(d.Reports))
	reported, assignments := make(map[string]bool, len(d.Reports)), d.byReplica()
	for _, r := range d.Reports {
		reported[r.Name] = true
		p := r.Placed
		p.After = nil
		switch a, assigned := assignments[r.Name]; {
		case slices.Contains(d.Reserved, r.Name):
			if p.Progress == schedule.Assigned {
				continue // it does not start
			}
			p.Progress = schedule.Leaving
		case !assigned && (d.Planned || d.Revision == 0) && !d.offered(r, false):
			p.Progress = schedule.Leaving
		case !assigned:
			p.Failure = "" // failures are those of assignments
		default:
			p.After = a.After
			elsewhere := !slices.Equal(p.Devices, a.Devices)
			if !r.At.Equal(a.At) && (p.Failure != "" || p.Progress == schedule.Leaving || elsewhere) {
				// the report is about another assignment of that name
				p.Progress, p.Since, p.Failure, p.Devices = schedule.Assigned, a.At, "", a.Devices
			}
			if p.Failure != "" { // it leaves because it failed, not because it was withdrawn
				p.Progress = min(p.Progress, schedule.Starting)
			}
		}
		all = append(all, p)
	}
	for _, a := range d.Assigned {
		if reported[a.Replica] || d.Leader != "" && slices.Contains(d.Reserved, a.Replica) {
			continue
		}
		p := schedule.Placed{Name: a.Replica, Model: d.Model.Name, Devices: a.Devices, After: a.After, Since: a.At}
		if d.Leader == "" { // it is not known, and must not time out
			p.Progress = schedule.Up
		}
		all = append(all, p)
	}
	return all
}
