package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"troupe/core/hbm"
)

// world is the pool while a plan is made.
type world struct {
	at      time.Time
	options Options
	devices []*device // by name
	models  []*model  // by priority, then by name
	memory  Memory
	unmet   []Unmet
	names   map[string]bool // of all replicas
	lost    []*replica      // without any device that is known
}

// device is a device with the replicas that are on it, or will be.
type device struct {
	Device
	replicas []*replica
}

// model is a model with its replicas.
type model struct {
	Model
	replicas []*replica // that count: they stay, or start
	evicted  []*replica // on draining devices
	want     Want
	held     bool
	refused  bool // a replica has no place
}

// replica is a replica that is there, or that the plan starts.
type replica struct {
	Placed
	model   *model // nil: it was deleted
	on      []*device
	leaves  bool
	started bool // by this plan
	urgency Urgency
	why     string // it leaves or starts
	cause   string // model that needs its place; empty: none
	after   []*replica
}

// newWorld sorts the snapshot, so that its order does not matter.
func newWorld(s Snapshot) *world {
	w := &world{at: s.At, options: s.Options.withDefaults(), memory: s.Memory.clone(), names: make(map[string]bool)}
	devices, models := make(map[string]*device), make(map[string]*model)
	for _, d := range s.Devices {
		devices[d.Name] = &device{Device: d}
		w.devices = append(w.devices, devices[d.Name])
	}
	slices.SortFunc(w.devices, func(a, b *device) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range s.Models {
		m.Group = max(1, m.Group)
		models[m.Name] = &model{Model: m,
			held: m.HeldBy != "" && (m.HeldTill.IsZero() || s.At.Before(m.HeldTill))}
		w.models = append(w.models, models[m.Name])
	}
	slices.SortFunc(w.models, func(a, b *model) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	placed := slices.SortedFunc(slices.Values(s.Replicas), func(a, b Placed) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range placed {
		w.names[p.Name] = true
		r := &replica{Placed: p, model: models[p.Model]}
		for _, name := range p.Devices {
			if d := devices[name]; d != nil {
				r.on = append(r.on, d)
				d.replicas = append(d.replicas, r)
			}
		}
		if len(r.on) == 0 {
			w.lost = append(w.lost, r)
		}
		w.judge(r)
	}
	for name := range w.memory.Models {
		if models[name] == nil {
			delete(w.memory.Models, name)
		}
	}
	for key, a := range w.memory.Avoid {
		if s.At.Sub(a.Until) > w.options.MaxBackoff {
			delete(w.memory.Avoid, key)
		}
	}
	return w
}

// judge decides whether a replica that is there counts.
func (w *world) judge(r *replica) {
	m := r.model
	switch {
	case m == nil:
		r.leave("its deployment was deleted", "")
	case len(r.on) != len(r.Devices) || slices.ContainsFunc(r.on, func(d *device) bool { return d.Failed }):
		r.leave("a device of it has failed or is lost", "")
	case len(r.on) != m.Group:
		r.leave(fmt.Sprintf("it has %d devices, and the deployment wants %d", len(r.on), m.Group), "")
	case r.Progress == Leaving:
		r.leave("it is leaving", "")
	case r.Failure != "":
		w.memory.failed(w.options, w.at, m.Name, r.Devices, r.Failure)
		r.leave("it did not start: "+r.Failure, "")
	case r.Progress < Up && w.at.Sub(r.Since) > w.startLimit(m):
		why := fmt.Sprintf("it was %s for %s", r.Progress, w.at.Sub(r.Since).Round(time.Second))
		w.memory.failed(w.options, w.at, m.Name, r.Devices, why)
		r.leave(why, "")
	case slices.ContainsFunc(r.on, func(d *device) bool { return d.Draining }):
		m.evicted = append(m.evicted, r)
	default:
		if r.Progress == Up {
			w.memory.succeeded(m.Name, r.Devices)
		}
		m.replicas = append(m.replicas, r)
	}
}

// startLimit returns how long a start of a model may take.
func (w *world) startLimit(m *model) time.Duration {
	expected := max(m.Loads.Device, m.Loads.Host, m.Loads.Disk)
	return max(w.options.StartTimeout, time.Duration(w.options.StartLoads*float64(expected)))
}

// leave makes a replica leave, for a model that needs its place if there is one.
func (r *replica) leave(why, cause string) {
	r.leaves, r.why, r.cause = true, why, cause
	if m := r.model; m != nil {
		m.replicas = slices.DeleteFunc(m.replicas, func(o *replica) bool { return o == r })
	}
}

// expect adds a replica of a model to the utilization of the device. A model whose utilization is unknown
// counts as one that others should not join.
func (d *device) expect(m *model) {
	use := m.Demand.Utilization
	if use < 0 || m.count(Up) == 0 {
		use = 0.5
	}
	d.Utilization = min(1, max(0, d.Utilization)+use)
}

// count returns the number of the model's replicas with a progress.
func (m *model) count(p Progress) (n int) {
	for _, r := range m.replicas {
		if r.Progress == p && !r.started {
			n++
		}
	}
	return n
}

// settled returns when the newest of the replicas that serve began to.
func (m *model) settled() (newest time.Time) {
	for _, r := range m.replicas {
		if r.Progress == Up && r.Since.After(newest) {
			newest = r.Since
		}
	}
	return newest
}

// bytes returns the memory of a replica on all of its devices.
func (m *model) bytes() int64 { return int64(m.Group) * (m.Weights + m.Need.Fixed + m.Need.Min) }

// budget returns the memory of the device with the replicas for which keep holds.
func (d *device) budget(keep func(*replica) bool) hbm.Budget {
	b := hbm.NewBudget(d.Memory, d.KVReserve)
	var loaded []*model
	for _, r := range d.replicas {
		if r.model == nil || !keep(r) {
			continue
		}
		need := r.model.Need
		if !slices.Contains(loaded, r.model) {
			need.Fixed += r.model.Weights
			loaded = append(loaded, r.model)
		}
		b = b.With(need)
	}
	return b
}

// needOn returns the memory that another replica of a model needs on a device.
func (m *model) needOn(d *device, keep func(*replica) bool) hbm.Need {
	need := m.Need
	if !slices.ContainsFunc(d.replicas, func(r *replica) bool { return r.model == m && keep(r) }) {
		need.Fixed += m.Weights
	}
	return need
}

// short returns the memory that a replica of a model lacks on a device beside those for which keep holds.
func (d *device) short(m *model, keep func(*replica) bool) int64 {
	if _, over := d.budget(keep).Add(m.needOn(d, keep)); over != nil {
		return over.Short
	}
	return 0
}
