package planner

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"troupe/core/hbm"
	"troupe/core/schedule"
)

const gib = 1 << 30

var began = time.Unix(1e9, 0)

// world is a store, deployments that converge to it, devices and a planner. It checks the invariants of
// doc.go by name.
type world struct {
	*rapid.T
	m       *Machine
	now     time.Time
	term    uint64 // of this node; 0: it does not lead
	terms   uint64 // highest term so far
	paused  bool
	next    uint64 // revision of the store
	stored  map[string]*Deployment
	nodes   map[string]bool // true: it drains
	away    []Report        // replicas on nodes that are away
	calls   []Effect        // that are not answered
	late    []func()        // answers of earlier rounds
	asked   map[string]time.Time
	asks    int // questions so far
	refused map[string]bool

	observed  map[string]uint64 // revisions in the last observation, or after own writes
	times     map[string]int    // writes of this round, by deployment
	faultless bool              // each write is stored
	failed    bool              // a write of this round was not stored
	writes    int               // of all rounds
	changed   time.Time         // last write that was stored
	entered   time.Time         // when the state was entered
	state     string            // with the round
}

func newWorld(t *rapid.T) *world {
	return &world{T: t, m: New(schedule.Options{}), now: began, stored: make(map[string]*Deployment),
		nodes: map[string]bool{"a": false, "b": false}, asked: make(map[string]time.Time),
		refused: make(map[string]bool)}
}

func (w *world) at() At { return At{w.now, w.term, w.paused} }

// deploy stores a new deployment, or another version of it.
func (w *world) deploy(name string) {
	w.next++
	d := w.stored[name]
	if d == nil {
		d = &Deployment{Leader: "a"}
		w.stored[name] = d
	}
	least := rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(w.T, "min")
	most := least + rapid.IntRange(0, 2).Draw(w.T, "more")
	d.Model = schedule.Model{Name: name, Min: least, Max: most, Sized: true,
		Priority: schedule.Priority(rapid.IntRange(0, 3).Draw(w.T, "priority")), Group: 1,
		Weights: rapid.Int64Range(8, 28).Draw(w.T, "weights") * gib,
		Need:    hbm.Need{Fixed: gib, Min: gib, MinAlone: gib}}
	d.Model.Demand = schedule.Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1}
	if rapid.IntRange(0, 5).Draw(w.T, "held") == 0 {
		d.Model.HeldBy, d.Model.Replicas = "operator", rapid.IntRange(0, 2).Draw(w.T, "wanted")
		if rapid.Bool().Draw(w.T, "for a time") {
			d.Model.HeldTill = w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(w.T, "seconds")) * time.Second)
		}
	}
	d.Revision = w.next
	d.Replicas = rapid.IntRange(least, d.Model.Max).Draw(w.T, "replicas")
	if d.Model.HeldBy != "" {
		d.Replicas = d.Model.Replicas
	}
}

// observation returns what the router would answer now.
func (w *world) observation() *Observation {
	o := &Observation{}
	for _, name := range slices.Sorted(maps.Keys(w.stored)) {
		d := *w.stored[name]
		d.Assigned, d.Reports = slices.Clone(d.Assigned), slices.Clone(d.Reports)
		if d.Revision == 0 && len(d.Reports) == 0 {
			continue
		}
		work := d.Model.Demand.Pending
		if slices.ContainsFunc(d.Reports, func(r Report) bool { return r.Progress == schedule.Up }) {
			d.Model.Demand.Pending, d.Model.Demand.Running = 0, work
		}
		d.Active = work > 0
		o.Deployments = append(o.Deployments, d)
	}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		o.Nodes = append(o.Nodes, Node{Name: name, GPUs: []string{"gpu-0"}, Draining: w.nodes[name]})
	}
	return o
}

func (w *world) devices(of []Node) (all []Device) {
	for _, n := range of {
		for _, gpu := range n.GPUs {
			all = append(all, Device{Device: schedule.Device{Name: n.Name + "/" + gpu, Node: n.Name, Memory: 40 * gib,
				Draining: n.Draining, KVReserve: 0.1, Utilization: -1}})
		}
	}
	return all
}

// converge lets the deployments start and stop replicas.
func (w *world) converge() {
	for _, name := range slices.Sorted(maps.Keys(w.stored)) {
		d := w.stored[name]
		d.Reports = slices.DeleteFunc(d.Reports, func(r Report) bool {
			node := r.Devices[0][:1]
			_, there := w.nodes[node]
			a, assigned := d.assignment(r.Name)
			if assigned && r.Failure != "" && !r.At.Equal(a.At) { // it is tried again
				return true
			}
			if !there && r.Progress == schedule.Up {
				w.away = append(w.away, r)
			}
			return !there || r.Progress == schedule.Leaving && (!assigned || r.Failure == "")
		})
		w.bringBack(d)
		for i := range d.Reports {
			r := &d.Reports[i]
			a, assigned := d.assignment(r.Name)
			switch {
			case d.Revision == 0, assigned && !slices.Equal(a.Devices, r.Devices),
				!assigned && !d.offered(*r, false) && d.Planned:
				r.Progress, r.Since = schedule.Leaving, w.now
			case r.Progress == schedule.Starting:
				r.Progress, r.Since = schedule.Up, w.now
			}
		}
		if d.Revision == 0 {
			continue
		}
		for _, a := range d.Assigned {
			if slices.ContainsFunc(d.Reports, func(r Report) bool { return r.Name == a.Replica }) || w.any(a.After) {
				continue
			}
			r := Report{At: a.At}
			r.Placed = schedule.Placed{Name: a.Replica, Model: name, Devices: a.Devices, Progress: schedule.Starting,
				Since: w.now}
			d.Reports = append(d.Reports, r)
		}
		slices.SortFunc(d.Reports, func(a, b Report) int { return compare(a.Name, b.Name) })
	}
}

// bringBack adds the replicas of a deployment whose nodes are back. One that is assigned to another node is stopped.
func (w *world) bringBack(d *Deployment) {
	w.away = slices.DeleteFunc(w.away, func(r Report) bool {
		if _, there := w.nodes[r.Devices[0][:1]]; !there || r.Model != d.Model.Name {
			return false
		}
		a, assigned := d.assignment(r.Name)
		known := slices.ContainsFunc(d.Reports, func(o Report) bool { return o.Name == r.Name })
		if !known && (!assigned || slices.Equal(a.Devices, r.Devices)) {
			r.Since, r.At = w.now, a.At
			d.Reports = append(d.Reports, r)
		}
		return true
	})
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// any reports whether one of some replicas is still there.
func (w *world) any(replicas []string) bool {
	for _, d := range w.stored {
		for _, r := range d.Reports {
			if slices.Contains(replicas, r.Name) {
				return true
			}
		}
	}
	return false
}

// answer answers the oldest call.
func (w *world) answer() {
	if len(w.calls) == 0 {
		return
	}
	call := w.calls[0]
	w.calls = w.calls[1:]
	switch e := call.(type) {
	case Acquire:
		if w.term == 0 && rapid.Bool().Draw(w.T, "acquired") {
			w.lead()
		}
		w.do(func() []Effect { return w.m.Acquired(w.at()) })
	case Observe:
		o := w.observation()
		w.observed = make(map[string]uint64)
		for _, d := range o.Deployments {
			w.observed[d.Model.Name] = d.Revision
		}
		w.do(func() []Effect { return w.m.Viewed(e.Round, o, w.at()) })
	case Survey:
		w.do(func() []Effect { return w.m.Surveyed(e.Round, w.devices(e.Nodes), nil, w.at()) })
	case MakePlan:
		r := &Result{Plan: schedule.Make(e.Snapshot), Verdicts: make(map[string][]schedule.Verdict)}
		for _, name := range e.Explain {
			r.Verdicts[name] = schedule.Explain(e.Snapshot, name)
		}
		w.do(func() []Effect { return w.m.Planned(e.Round, r, w.at()) })
	case Store:
		outcome, revision := w.apply(e.Write)
		w.do(func() []Effect { return w.m.Stored(e.Round, outcome, revision, "it failed", w.at()) })
	}
}

// apply stores a write, if the deployment has the revision.
func (w *world) apply(e Write) (Outcome, uint64) {
	d := w.stored[e.Name]
	lost := !w.faultless && rapid.IntRange(0, 9).Draw(w.T, "store") == 0
	switch {
	case d == nil || d.Revision != e.Revision:
		return Conflict, 0
	case lost && rapid.Bool().Draw(w.T, "refused"):
		return NotStored, 0
	}
	w.next++
	w.changed = w.now
	for i := range d.Reports { // the deployment sees that the assignment is withdrawn
		_, was := d.assignment(d.Reports[i].Name)
		if was && !slices.ContainsFunc(e.Replicas, func(a Assignment) bool { return a.Replica == d.Reports[i].Name }) {
			d.Reports[i].Progress, d.Reports[i].Since = schedule.Leaving, w.now
		}
	}
	d.Revision, d.Replicas, d.Intended, d.Assigned, d.Planned = w.next, e.To, e.Intended, e.Replicas, true
	d.Withdrawn = e.Withdrawn
	d.Term = e.Term
	if e.Released != "" {
		d.Model.HeldBy, d.Model.HeldTill = "", time.Time{}
	}
	w.observed[e.Name] = w.next
	if lost {
		return Unknown, 0
	}
	return Done, w.next
}

func (w *world) lead() {
	w.terms++
	w.term = w.terms
}

// assignment returns the stored assignment of a replica.
func (d *Deployment) assignment(replica string) (Assignment, bool) {
	for _, a := range d.Assigned {
		if a.Replica == replica {
			return a, true
		}
	}
	return Assignment{}, false
}
