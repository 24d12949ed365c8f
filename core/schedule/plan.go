package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Plan is what is to run where.
type Plan struct {
	Wants       []Wanted     // what the policy wants for each model, by name
	Assignments []Assignment // all replicas that are to be there, by name
	Departures  []Departure  // replicas that are there and are to leave, by name
	Unmet       []Unmet      // what models want and do not get, by priority
	// Order has the models that change, in the order in which the changes are applied: a model whose replicas
	// leave for another one comes before that one.
	Order  []string
	Memory Memory // for the next plan
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
	Why     string // what the model wants, and what speaks against the devices
	// Later is set if there may be room soon, so that requests wait: replicas of the model start, a device
	// is silent, a node restarts, a backoff ends, or a replica may leave.
	Later    bool
	Failure  string    // of the last start that failed, if one did lately
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

// phases are the steps of a plan with the urgencies that each serves.
var phases = [...][]Urgency{{Minimum}, {Wake, Missed}, {Headroom}, {Fill}}

// Make returns the plan for a snapshot.
func Make(s Snapshot) Plan { return planned(s).plan() }

// planned returns the pool of a snapshot with the decisions of a plan.
func planned(s Snapshot) *world {
	w := newWorld(check(s))
	for _, m := range w.models {
		w.decide(m)
	}
	for _, m := range w.models {
		w.shrink(m)
		w.replace(m)
	}
	for p := range phases {
		w.phase(p)
	}
	return w
}

// decide asks the policy how many replicas a model wants.
func (w *world) decide(m *model) {
	memory := w.memory.Models[m.Name]
	v := view{Model: m.Model, now: w.at, options: w.options, memory: &memory, have: len(m.replicas),
		up: m.count(Up), idle: m.count(Assigned), settled: m.settled()}
	switch {
	case m.held:
		m.want = Want{len(m.replicas), Headroom, "held by " + m.HeldBy}
	default:
		m.want = v.want()
	}
	w.memory.Models[m.Name] = memory
}

// shrink makes the replicas leave that a model does not want: first those that do not serve, then the one
// with the fewest sequences, then the newest.
func (w *world) shrink(m *model) {
	for len(m.replicas) > m.want.Replicas && !(m.Pinned && m.want.Replicas >= m.Min && len(m.replicas) <= m.Max) {
		r := slices.MinFunc(m.replicas, func(a, b *replica) int {
			return cmp.Or(cmp.Compare(a.Progress, b.Progress), cmp.Compare(a.Streams, b.Streams),
				-compareNames(a.Name, b.Name))
		})
		w.changed(m)
		r.leave(m.want.Why, "")
	}
}

// changed notes that the number of a model's replicas changes.
func (w *world) changed(m *model) {
	memory := w.memory.Models[m.Name]
	memory.Changed = w.at
	w.memory.Models[m.Name] = memory
}

// replace makes replicas on draining devices leave when enough others serve.
func (w *world) replace(m *model) {
	for _, r := range m.evicted {
		if m.count(Up) >= m.want.Replicas {
			r.leaves, r.why = true, "its device drains, and others serve"
		}
	}
}

// phase gives models the replicas that they miss with the urgencies of a phase: by priority, and one to
// each model in turn. Of models with the same priority, those whose requests have waited longest come first.
func (w *world) phase(p int) {
	waiting := slices.Clone(w.models)
	slices.SortStableFunc(waiting, func(a, b *model) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), compareAges(a.Demand.Oldest, b.Demand.Oldest))
	})
	for len(waiting) > 0 {
		end := 1
		for end < len(waiting) && waiting[end].Priority == waiting[0].Priority {
			end++
		}
		same := slices.DeleteFunc(slices.Clone(waiting[:end]), func(m *model) bool { return !w.add(m, p) })
		waiting = slices.Concat(same, waiting[end:])
	}
}

// compareAges orders times, the zero one last.
func compareAges(a, b time.Time) int {
	return cmp.Or(cmp.Compare(number(a.IsZero()), number(b.IsZero())), a.Compare(b))
}

// add gives a model one replica, if it misses one with an urgency of the phase.
func (w *world) add(m *model, phase int) bool {
	u, target := m.want.Urgency, m.want.Replicas
	if phase == 0 {
		u, target = Minimum, min(target, m.Min)
	}
	missing := target - len(m.replicas)
	if m.held || m.refused || missing <= 0 || !slices.Contains(phases[phase], u) {
		return false
	}
	on, why := w.group(m, func(d *device) bool { return w.admits(m, d, u, here).kind == "" })
	if on == nil {
		room, ok := w.displace(m, u)
		if !ok {
			m.refused = true
			w.refuse(m, u, missing)
			return false
		}
		for _, r := range room.victims {
			r.leave(fmt.Sprintf("%s of %s needs its place: %s", u, m.Name, m.want.Why), m.Name)
			r.model.want.Why = "its place went to " + m.Name
		}
		on, why = room.on, fmt.Sprintf("%d replicas leave for it", len(room.victims))
	}
	w.start(m, u, on, m.want.Why+"; "+on[0].Name+": "+why)
	return true
}

// start adds a replica to devices.
func (w *world) start(m *model, u Urgency, on []*device, why string) {
	r := &replica{Placed: Placed{Name: w.freeName(m.Name), Model: m.Name, Since: w.at}, model: m, on: on, started: true,
		urgency: u, why: why}
	for _, d := range on {
		r.Devices = append(r.Devices, d.Name)
		if d.short(m, func(*replica) bool { return true }) > 0 {
			for _, o := range d.replicas {
				if o.leaves && !slices.Contains(r.after, o) {
					r.after = append(r.after, o)
				}
			}
		}
	}
	for _, d := range on {
		d.expect(m)
		d.replicas = append(d.replicas, r)
	}
	m.replicas = append(m.replicas, r)
	w.changed(m)
}

// freeName returns the first name of a replica that is not in use.
func (w *world) freeName(model string) string {
	for i := 1; ; i++ {
		if name := model + "-" + strconv.Itoa(i); !w.names[name] {
			w.names[name] = true
			return name
		}
	}
}

// refuse notes replicas that have no place, with what speaks against the devices.
func (w *world) refuse(m *model, u Urgency, missing int) {
	counts := make(map[string]int)
	for _, d := range w.devices {
		counts[w.admits(m, d, u, here).kind]++
	}
	why := fmt.Sprintf("%s; of %d devices", m.want.Why, len(w.devices))
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		switch {
		case kind != "":
			why += fmt.Sprintf(", %d %s", counts[kind], kind)
		default:
			why += fmt.Sprintf(", %d with room, and one node must have %d", counts[kind], m.Group)
		}
	}
	if u == Wake && m.WakeWait > 0 && !w.waitedLong(m) {
		why += fmt.Sprintf("; requests are gathered for up to %s", m.WakeWait)
	}
	w.unmet = append(w.unmet, Unmet{Model: m.Name, Missing: missing, Urgency: u, Why: why})
}

// plan returns the result.
func (w *world) plan() Plan {
	p := Plan{Unmet: w.unmet, Memory: w.memory}
	for _, m := range w.models {
		p.Wants = append(p.Wants, Wanted{m.Name, m.want})
	}
	slices.SortFunc(p.Wants, func(a, b Wanted) int { return cmp.Compare(a.Model, b.Model) })
	seen := make(map[*replica]bool)
	add := func(r *replica) {
		if seen[r] {
			return
		}
		seen[r] = true
		if r.leaves {
			p.Departures = append(p.Departures, Departure{Replica: r.Name, Model: r.Placed.Model, For: r.cause, Why: r.why})
			return
		}
		a := Assignment{Replica: r.Name, Model: r.Placed.Model, Devices: r.Devices, New: r.started}
		if r.started {
			a.Urgency, a.Why = r.urgency, r.why
		}
		for _, o := range r.after {
			a.After = append(a.After, o.Name)
		}
		slices.Sort(a.After)
		p.Assignments = append(p.Assignments, a)
	}
	for _, d := range w.devices {
		for _, r := range d.replicas {
			add(r)
		}
	}
	for _, r := range w.lost {
		add(r)
	}
	slices.SortFunc(p.Assignments, func(a, b Assignment) int { return compareNames(a.Replica, b.Replica) })
	slices.SortFunc(p.Departures, func(a, b Departure) int { return compareNames(a.Replica, b.Replica) })
	return p
}

// compareNames orders names of the form model-1, model-2, model-10.
func compareNames(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
