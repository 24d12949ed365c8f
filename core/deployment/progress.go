package deployment

import (
	"maps"
	"slices"
	"time"
)

// Progress is how far a replica has come.
type Progress uint8

const (
	ProgressAssigned Progress = iota // it has not begun
	ProgressStarting                 // it loads
	ProgressUp                       // it serves, or is on standby
	ProgressLeaving                  // it finishes its sequences, or its memory is being freed
)

// String returns the name of the progress.
func (p Progress) String() string { return [...]string{"assigned", "starting", "up", "leaving"}[p] }

// ReplicaProgress is the progress of a replica that is assigned, or there.
type ReplicaProgress struct {
	Replica  string
	Node     string
	GPUs     []string
	Progress Progress
	Since    time.Time
	Failure  string    // why its assignment failed; empty: it did not
	Served   bool      // it served before it failed
	Outdated bool      // it has other settings or other files than the spec
	At       time.Time // of its assignment; zero: it has none
	// Quarantined means that its GPU is.
	Quarantined bool
	Files       string // digest of the files that it has loaded; empty: not known yet
}

// progress returns the progress of all replicas that are assigned or there, by name.
func (d *Deployment) progress() (all []ReplicaProgress) {
	names := slices.Collect(maps.Keys(d.replicas))
	for name := range d.spec.Assigned {
		if d.replicas[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, d.progressOf(name))
	}
	return all
}

func (d *Deployment) progressOf(name string) ReplicaProgress {
	a := d.spec.Assigned[name]
	p := ReplicaProgress{Replica: name, Node: a.Node, GPUs: a.GPUs, At: a.At}
	at, single := a.location()
	p.Quarantined = single && d.quarantined[at]
	if last, failed := d.attempts[name]; failed {
		p.Failure, p.Since, p.Served = last.why, last.when, last.served
	}
	r := d.replicas[name]
	if r == nil {
		for _, since := range []time.Time{a.At, d.absentSince[name]} {
			if since.After(p.Since) {
				p.Since = since
			}
		}
		return p
	}
	p.Quarantined = d.quarantined[r.spec.At]
	if !single || at != r.spec.At { // it has no assignment, or one to another GPU
		p.At, p.Failure, p.Served = time.Time{}, "", false
	}
	p.Node, p.GPUs = r.spec.At.Node, []string{r.spec.At.GPU}
	p.Since, p.Progress = r.progressed, r.phase.progress()
	p.Outdated, p.Files = d.state != Unknown && !d.current(r), r.last().Revision
	return p
}

func (p Phase) progress() Progress {
	switch p {
	case Absent:
		return ProgressAssigned
	case Starting, Loading:
		return ProgressStarting
	case Up:
		return ProgressUp
	}
	return ProgressLeaving
}
