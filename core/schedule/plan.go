package schedule

import (
	"cmp"
	"slices"
)

// Plan has the replicas that are to be there, and those that leave.
type Plan struct {
	Wants       []Wanted     // what the policy wants for each model, by name
	Assignments []Assignment // all replicas that are to be there, by name
	Departures  []Departure  // replicas that are there and are to leave, by name
	Unmet       []Unmet      // what models want and do not get, by priority
	Memory      Memory       // for the next plan
}

// Wanted is what the policy wants for a model.
type Wanted struct {
	Model string
	Want
}

// Assignment is a replica that is to be there.
type Assignment struct {
	Replica  string
	Model    string
	Devices  []string
	New      bool     // decided by this plan
	Replaces string   // the replica for which a new one is a substitute; empty: none
	Urgency  Urgency  // of a new one
	Why      string   // of a new one
	After    []string // replicas whose memory it needs: it starts when they have left
}

// Departure is a replica that is to leave.
type Departure struct {
	Replica string
	Model   string
	For     string // the model that needs its place; empty: none
	Surplus bool   // its model wants fewer replicas
	Why     string
}

// Unmet is a number of replicas that a model wants and does not get.
type Unmet struct {
	Model   string
	Missing int
	Urgency Urgency
	Why     string // why the model wants it, and the reasons against the devices
	// Later is set if there may be room soon, so that requests wait: replicas of the model start, a device
	// is silent, a node restarts, a backoff ends, or a replica may leave.
	Later    bool
	Failure  string    // of the last start that failed, if one did lately
	Fault    string    // of the first device that has failed or is quarantined, and that the model could use otherwise
	Shortage *Shortage // nil: no device lacks only memory
	Detail   string    // for clients and operators: the object and the remedy
}

// Shortage is the memory that the closest device lacks, in bytes.
type Shortage struct {
	Device                      string
	Missing                     int64
	Bytes, Used, Total, Reserve int64 // as hbm.Overload has them
	Evictable                   int64 // of weights that no replica uses; they are not in Used
	Room                        *Room // nil: no models would make room by leaving
}

// Room is how an operator makes room on a device.
type Room struct {
	Device string
	Leave  []Holder
}

// plan returns the decisions.
func (w *world) plan() Plan {
	p := Plan{Unmet: w.unmet, Memory: w.memory}
	for _, m := range w.models {
		p.Wants = append(p.Wants, Wanted{m.Name, m.want})
	}
	slices.SortFunc(p.Wants, func(a, b Wanted) int { return cmp.Compare(a.Model, b.Model) })
	all := w.all()
	p.Memory.Substitutes = make(map[string]Substitute)
	for _, r := range all {
		if r.leaves {
			p.Departures = append(p.Departures, Departure{r.Name, r.Placed.Model, r.cause, r.surplus, r.why})
			continue
		}
		p.Assignments = append(p.Assignments, r.assignment())
		if old := r.replaces; old != nil {
			p.Memory.Substitutes[r.Name] = Substitute{old.Name, old.moving}
		}
	}
	slices.SortFunc(p.Assignments, func(a, b Assignment) int { return compareNames(a.Replica, b.Replica) })
	slices.SortFunc(p.Departures, func(a, b Departure) int { return compareNames(a.Replica, b.Replica) })
	return p
}

// all returns each replica once, also if it has several devices.
func (w *world) all() (all []*replica) {
	for _, d := range w.devices {
		for _, r := range d.replicas {
			if r.on[0] == d {
				all = append(all, r)
			}
		}
	}
	return append(all, w.lost...)
}

func (r *replica) assignment() Assignment {
	a := Assignment{Replica: r.Name, Model: r.Placed.Model, Devices: r.Devices, New: r.started}
	if r.replaces != nil {
		a.Replaces = r.replaces.Name
	}
	if r.started {
		a.Urgency, a.Why = r.urgency, r.why
	}
	for _, o := range r.after {
		a.After = append(a.After, o.Name)
	}
	slices.Sort(a.After)
	return a
}

// compareNames orders names of the form model-1, model-2, model-10.
func compareNames(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
