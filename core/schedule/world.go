package schedule

import (
	"cmp"
	"slices"
	"time"

	"troupe/core/hbm"
)

// world is the pool with the decisions of a plan that is being made.
type world struct {
	at      time.Time
	options Options
	policy  policy
	devices []*device // by name
	models  []*model  // by priority, then by name
	memory  Memory
	unmet   []Unmet
	names   map[string]bool // of all replicas, and reserved ones
	files   map[files]fileID
	lost    []*replica // without any device that is known
	away    bool       // a node is away that may be back soon
	unkept  bool       // for what-if: pinned and held replicas may leave
	// eventually is set while the plan looks for room that may come later. Then replicas that must stay for their
	// residence may leave.
	eventually bool
}

// device is a device with the replicas that are on it, or will be.
type device struct {
	Device
	near     map[string]Where // by model
	replicas []*replica
}

// files identifies the files of a model, and the number of devices among which a replica divides them.
type files struct {
	name  string
	group int
}

// fileID identifies files within a plan. Replicas with the same files share the weights on a device; 0: they are
// unknown, and not counted.
type fileID int

// model is a model with its replicas.
type model struct {
	Model
	files    fileID
	replicas []*replica // that count: they stay, or start
	old      []*replica // that stay until others serve: evicted, outdated or moving ones
	want     Want
	held     bool
	refused  bool // a replica has no place
	leaving  int  // replicas that leave
	names    int  // names that were tried
}

// replica is a replica that is there, or that the plan starts.
type replica struct {
	Placed
	model      *model // nil: it was deleted
	files      fileID
	on         []*device
	evicted    bool     // a device of it drains, or is quarantined
	moving     bool     // it moves to a better device
	substitute *replica // starts, and takes its place
	replaces   *replica // the one whose place it takes
	leaves     bool
	surplus    bool
	started    bool // by this plan
	urgency    Urgency
	why        string // it leaves or starts
	cause      string // model that needs its place; empty: none
	after      []*replica
}

// newWorld returns the pool of a snapshot, and judges its replicas.
func newWorld(s Snapshot) *world {
	w := &world{at: s.At, options: s.Options.withDefaults(), memory: s.Memory.clone(), names: make(map[string]bool),
		files: make(map[files]fileID)}
	w.policy = policies[w.options.Policy]
	for _, a := range s.Away {
		w.away = w.away || w.soon(a.Since)
	}
	for _, name := range s.Reserved {
		w.names[name] = true
	}
	devices := w.addDevices(s.Devices)
	models := w.addModels(s.Models)
	replicas := w.addReplicas(s.Replicas, devices, models)
	for _, p := range s.Replicas {
		w.judge(replicas[p.Name], replicas)
	}
	w.pair(replicas)
	w.memory.prune(w.at, w.options, models)
	return w
}

// soon reports whether something that has been away since a time may still come back soon.
func (w *world) soon(since time.Time) bool { return w.at.Sub(since) < w.options.SoonWithin }

func (w *world) addDevices(all []Device) map[string]*device {
	devices := make(map[string]*device, len(all))
	for _, d := range all {
		next := &device{Device: d, near: make(map[string]Where)}
		for where, names := range map[Where][]string{
			InFolder: d.Folders, InDiskImage: d.DiskImages, InHostCache: d.Images, OnDevice: d.Weights,
		} {
			for _, name := range names {
				next.near[name] = max(next.near[name], where)
			}
		}
		devices[d.Name] = next
		w.devices = append(w.devices, next)
	}
	slices.SortFunc(w.devices, func(a, b *device) int { return cmp.Compare(a.Name, b.Name) })
	return devices
}

func (w *world) addModels(all []Model) map[string]*model {
	models := make(map[string]*model, len(all))
	for _, m := range all {
		next := &model{Model: m, held: m.HeldBy != "" && (m.HeldTill.IsZero() || w.at.Before(m.HeldTill))}
		next.Priority = w.rank(next)
		next.files = w.idOf(files{cmp.Or(m.Files, "of "+m.Name), m.Group})
		models[m.Name] = next
		w.models = append(w.models, next)
	}
	slices.SortFunc(w.models, func(a, b *model) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	return models
}

func (w *world) addReplicas(all []Placed, devices map[string]*device, models map[string]*model) map[string]*replica {
	replicas := make(map[string]*replica, len(all))
	for _, p := range all {
		w.names[p.Name] = true
		r := &replica{Placed: p, model: models[p.Model]}
		switch {
		case p.Outdated && p.Files != "":
			r.files = w.idOf(files{p.Files, len(p.Devices)})
		case r.model != nil:
			r.files = r.model.files
		}
		for _, name := range p.Devices {
			if d := devices[name]; d != nil {
				r.on = append(r.on, d)
				d.replicas = append(d.replicas, r)
			}
		}
		if len(r.on) == 0 {
			w.lost = append(w.lost, r)
		}
		replicas[p.Name] = r
	}
	return replicas
}

// idOf returns the ID of files.
func (w *world) idOf(f files) fileID {
	if w.files[f] == 0 {
		w.files[f] = fileID(len(w.files) + 1)
	}
	return w.files[f]
}

// leave makes a replica leave, for a model that needs its place if there is one.
func (r *replica) leave(why, cause string) {
	r.leaves, r.why, r.cause = true, why, cause
	if r.substitute != nil {
		r.substitute.replaces, r.substitute = nil, nil
	}
	if r.replaces != nil {
		r.replaces.substitute, r.replaces = nil, nil
	}
	if m := r.model; m != nil {
		same := func(o *replica) bool { return o == r }
		m.leaving++
		m.replicas, m.old = slices.DeleteFunc(m.replicas, same), slices.DeleteFunc(m.old, same)
	}
}

// expect adds the expected utilization of a replica to a device. If it is unknown, other models do not join.
func (d *device) expect(m *model) {
	use := m.Demand.Utilization
	if use < 0 || m.serving() == 0 {
		use = 0.5
	}
	d.Utilization = min(1, max(0, d.Utilization)+use)
}

// have returns the number of replicas of a model. A replica and its substitute count as one.
func (m *model) have() int {
	n := len(m.replicas) + len(m.old)
	for _, r := range m.old {
		if r.substitute != nil {
			n--
		}
	}
	return n
}

// staying returns the number of replicas that a model has, without those on devices that drain and have no
// substitute.
func (m *model) staying() int {
	return m.have() - len(m.unpaired(func(r *replica) bool { return r.evicted }))
}

// serving returns the number of replicas that serve.
func (m *model) serving() (n int) {
	for _, all := range [][]*replica{m.replicas, m.old} {
		for _, r := range all {
			if r.Progress == Up && !r.started {
				n++
			}
		}
	}
	return n
}

// waiting returns the number of replicas that have not begun to load. Substitutes do not count.
func (m *model) waiting() (n int) {
	for _, r := range m.replicas {
		if r.Progress == Assigned && !r.started && r.replaces == nil {
			n++
		}
	}
	return n
}

// settled returns when the last of the replicas that serve began to serve.
func (m *model) settled() (newest time.Time) {
	for _, r := range m.replicas {
		if r.Progress == Up && r.Since.After(newest) {
			newest = r.Since
		}
	}
	return newest
}

// most returns the largest number of replicas that a model may have, apart from one that is being replaced.
func (m *model) most() int { return max(m.Max, m.want.Replicas) }

// bytes returns the memory of a replica on all of its devices.
func (m *model) bytes() float64 { return float64(m.Group) * float64(m.Weights+m.Need.Fixed+m.Need.Min) }

// need returns the memory of a replica on each of its devices, without its weights.
func (r *replica) need() hbm.Need {
	if r.Need == (hbm.Need{}) && r.model != nil {
		return r.model.Need
	}
	return r.Need
}

// weights returns the bytes of a replica's weights on each of its devices.
func (r *replica) weights() int64 {
	switch own := r.model == nil || r.files != r.model.files; {
	case own && r.Weights > 0:
		return r.Weights
	case r.model != nil:
		return r.model.Weights
	}
	return 0
}

// budget returns the memory of the device with the replicas for which keep holds.
func (d *device) budget(keep func(*replica) bool) hbm.Budget {
	b := hbm.NewBudget(d.Memory, d.KVReserve)
	b.Fixed += d.Other
	var loaded []fileID
	for _, r := range d.replicas {
		if !keep(r) {
			continue
		}
		need := r.need()
		if r.files != 0 && !slices.Contains(loaded, r.files) {
			need.Fixed += r.weights()
			loaded = append(loaded, r.files)
		}
		b = b.With(need)
	}
	return b
}

// needOn returns the memory that another replica of a model needs on a device.
func (m *model) needOn(d *device, keep func(*replica) bool) hbm.Need {
	need := m.Need
	if !d.loaded(m, keep) {
		need.Fixed += m.Weights
	}
	return need
}

// loaded reports whether a replica for which keep holds uses the weights of a model.
func (d *device) loaded(m *model, keep func(*replica) bool) bool {
	return slices.ContainsFunc(d.replicas, func(r *replica) bool { return r.files == m.files && keep(r) })
}

// short returns the memory that a replica of a model lacks on a device beside those for which keep holds.
func (d *device) short(m *model, keep func(*replica) bool) int64 {
	if _, over := d.budget(keep).Add(m.needOn(d, keep)); over != nil {
		return over.Short
	}
	return 0
}

// siblings returns the number of replicas of a model on a device that stay.
func (d *device) siblings(m *model) (n int) {
	for _, r := range d.replicas {
		if r.model == m && !r.leaves {
			n++
		}
	}
	return n
}

// siblingsOn returns the numbers of replicas of a model by node.
func (m *model) siblingsOn() map[string]int {
	nodes := make(map[string]int)
	for _, all := range [][]*replica{m.replicas, m.old} {
		for _, r := range all {
			nodes[r.on[0].Node]++
		}
	}
	return nodes
}
