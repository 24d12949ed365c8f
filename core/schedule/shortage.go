package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"troupe/core/backend"
	"troupe/core/hbm"
	"troupe/core/units"
)

// refuse notes that replicas have no place, with the reasons against the devices.
func (w *world) refuse(q request, missing int) {
	u := Unmet{Model: q.Name, Missing: missing, Urgency: q.urgency, Shortage: w.shortage(q.model)}
	u.Why = q.why + "; of " + units.Count(len(w.devices), "device")
	counts, by := w.against(q)
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		u.Why += fmt.Sprintf(", %d %s", counts[kind], kind)
	}
	if q.urgency == Wake && q.WakeWait > 0 && !w.waitedLong(q.model) {
		u.Why += fmt.Sprintf("; requests are gathered for up to %s", q.WakeWait)
	}
	u.Failure, u.Fault = w.lastFailure(q.model), w.fault(q.model)
	u.Later = w.later(q)
	kept := ""
	if !u.Later {
		kept = w.kept(q)
		u.Why += kept
	}
	u.Detail = w.detail(q, u, counts, by, kept)
	w.unmet = append(w.unmet, u)
}

// against counts the devices by the reason against them, and returns the least memory that one lacks.
func (w *world) against(q request) (counts map[string]int, by int64) {
	counts = make(map[string]int)
	for _, d := range w.devices {
		kind := w.admits(q, d, here).kind
		switch short := int64(0); kind {
		case "":
			kind = fmt.Sprintf("with room, but one node must have %d", q.Group)
		case shortOfMemory:
			if short = d.short(q.model, here); by == 0 || short < by {
				by = short
			}
		}
		counts[kind]++
	}
	return counts, by
}

// shortage returns the shortage of the device that lacks the least memory, of those that are usable otherwise; nil:
// none lacks memory.
func (w *world) shortage(m *model) *Shortage {
	var least *Shortage
	for _, d := range w.devices {
		if w.works(m, d).kind != "" {
			continue
		}
		_, over := d.budget(here).Add(m.needOn(d, here))
		if over == nil || least != nil && over.Short >= least.Missing {
			continue
		}
		least = &Shortage{Device: d.Name, Missing: over.Short, Evictable: d.evictable(m)}
		least.Bytes, least.Used, least.Total, least.Reserve = over.Sizes()
	}
	if least != nil {
		least.Room = w.room(m)
	}
	return least
}

// evictable returns the bytes of the unused weights on a device, without those that a replica of the model would use.
func (d *device) evictable(m *model) int64 {
	if d.near[m.Name] == OnDevice && !d.loaded(m, here) {
		return max(0, d.Unused-m.Weights)
	}
	return d.Unused
}

// room returns how an operator makes room for a replica: the device on which the fewest bytes have to become free, and
// the models that would leave it; nil: removing models does not help.
func (w *world) room(m *model) *Room {
	var devices []tenants
	for _, d := range w.devices {
		if w.works(m, d).kind == "" {
			need := m.needOn(d, here)
			t := tenants{device: d.Name, memory: d.budget(here), holders: d.holders(m)}
			// Subtract the weights if the replica would share those of another one on this device.
			t.memory.Fixed += need.Fixed - m.Need.Fixed - m.Weights
			devices = append(devices, t)
		}
	}
	need := m.Need
	need.Fixed += m.Weights
	at, leave := makeRoom(need, devices)
	if leave == nil {
		return nil
	}
	return &Room{at, leave}
}

// holders returns the other models that have replicas on a device, by name.
func (d *device) holders(but *model) (all []Holder) {
	for _, r := range d.replicas {
		if r.leaves || r.model == but {
			continue
		}
		need := r.need()
		i := slices.IndexFunc(all, func(h Holder) bool { return h.Model == r.Placed.Model })
		if i < 0 {
			i, all = len(all), append(all, Holder{Model: r.Placed.Model})
		}
		h := &all[i]
		if r.files != but.files && !slices.ContainsFunc(d.replicas, func(o *replica) bool {
			return o.files == r.files && !o.leaves && (o.model != r.model || slices.Contains(h.Replicas, o.Name))
		}) {
			need.Fixed += r.weights()
		}
		h.Replicas = append(h.Replicas, r.Name)
		h.Need = hbm.Need{Fixed: h.Need.Fixed + need.Fixed, Min: h.Need.Min + need.Min}
	}
	for _, h := range all {
		slices.SortFunc(h.Replicas, compareNames)
	}
	slices.SortFunc(all, func(a, b Holder) int { return strings.Compare(a.Model, b.Model) })
	return all
}

// lastFailure returns why a model failed last, with the device; empty: no failure is remembered.
func (w *world) lastFailure(m *model) (why string) {
	var last Attempt
	for _, d := range w.devices {
		if a := w.memory.Avoid[avoidKey(m.Name, d.Name)]; a.Until.After(last.Until) {
			last, why = a, d.Name+": "+a.Why
		}
	}
	return why
}

// fault returns the fault of the first device that has failed or is quarantined, with the device; empty: there is none
// that the model could use otherwise.
func (w *world) fault(m *model) string {
	for _, d := range w.devices {
		if kind := w.works(m, d).kind; (kind == failed || kind == quarantined) && d.Fault != "" {
			return d.Name + " is quarantined: " + d.Fault
		}
	}
	return ""
}

// later reports whether there may soon be room for a replica, so that requests wait: others of the model
// start; a node is away for a moment, leaves, or is just back; a device is silent, or its backoff ends; or replicas
// leave after their residence or the wait of the requests.
func (w *world) later(q request) bool {
	if w.away || slices.ContainsFunc(q.replicas, func(r *replica) bool { return r.Progress < Up }) {
		return true
	}
	for _, d := range w.devices {
		if d.Leaving || slices.Contains(d.Returning, q.Name) ||
			d.Silent && (d.SilentSince.IsZero() || w.soon(d.SilentSince)) {
			return true
		}
		if w.avoids(q.model, d) && w.soonAgain(q, d) {
			return true
		}
	}
	w.eventually = true
	defer func() { w.eventually = false }()
	_, ok := w.displace(q)
	return ok
}

// kept returns which pinned or held replicas would leave otherwise, as the last part of a sentence.
func (w *world) kept(q request) (text string) {
	w.eventually, w.unkept = true, true
	defer func() { w.eventually, w.unkept = false, false }()
	room, _ := w.displace(q)
	for _, r := range room.victims {
		switch m := r.model; {
		case m.Pinned:
			text += fmt.Sprintf("; %s is pinned to %s", r.Name, r.on[0].Name)
		case m.held:
			text += fmt.Sprintf("; %s is held by %s", r.Name, m.HeldBy)
		}
	}
	return text
}

// soonAgain reports whether a device on which a start failed has room for another attempt soon.
func (w *world) soonAgain(q request, d *device) bool {
	until := w.memory.Avoid[avoidKey(q.Name, d.Name)].Until
	return until.Sub(w.at) <= w.options.SoonWithin && w.works(q.model, d).kind == "" &&
		w.neighbors(q, d, here).kind == "" && d.short(q.model, here) == 0
}

// detail returns why there is no place for a replica, for clients and operators.
func (w *world) detail(q request, u Unmet, counts map[string]int, by int64, kept string) string {
	var parts []string
	if n := counts[shortOfMemory]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d short of memory by %s or more", n, len(w.devices),
			units.FormatBytes(by)))
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if kind != shortOfMemory {
			parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
		}
	}
	if len(w.devices) == 0 {
		parts = append(parts, "no GPU")
	}
	text := "no GPU for a replica of " + q.Name + ": " + strings.Join(parts, "; ")
	if u.Failure != "" {
		text += "; it failed last on " + u.Failure
	}
	if u.Fault != "" {
		text += "; " + u.Fault + "; gpus.release ends the quarantine"
	}
	text += kept
	switch {
	case u.Shortage != nil:
		text += "; delete a model, lower max_sequences or kv_blocks, or add a GPU" + u.Shortage.Room.text()
	case q.Engine == backend.Simulated:
		text += "; simulated models run on simulated devices only, see --simulated-devices"
	}
	return text
}

// text returns the models that would leave, and the commands, as the last part of a sentence.
func (r *Room) text() string {
	if r == nil {
		return ""
	}
	var who, commands []string
	for _, h := range r.Leave {
		who = append(who, fmt.Sprintf("%s (%s, %s)", h.Model, strings.Join(h.Replicas, ", "),
			units.FormatBytes(h.Bytes())))
		commands = append(commands, h.ParkCommand())
	}
	return fmt.Sprintf("; for room on %s, %s would leave: %s", r.Device, strings.Join(who, " and "),
		strings.Join(commands, ", "))
}
