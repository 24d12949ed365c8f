package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"troupe/core/units"
)

// judge decides whether a replica that is there counts, is to be replaced, or leaves.
func (w *world) judge(r *replica, all map[string]*replica) {
	m := r.model
	switch {
	case m == nil:
		r.leave("its deployment was deleted", "")
	case len(r.on) != len(r.Devices) || slices.ContainsFunc(r.on, func(d *device) bool { return d.Failed }):
		r.leave(units.Verb(len(r.Devices), "its device has", "one of its devices has")+" failed or is lost", "")
	case len(r.on) != m.Group:
		r.leave(fmt.Sprintf("it has %s, and the deployment wants %d", units.Count(len(r.on), "device"), m.Group), "")
	case r.Progress == Leaving:
		r.leave("it is leaving", "")
	case r.Failure != "":
		w.memory.failed(w.options, w.at, r, r.Failure)
		what := "it did not start: "
		if r.Served {
			what = "it failed: "
		}
		r.leave(what+r.Failure, "")
	case r.Progress < Up:
		w.judgeStart(r, all)
	default:
		w.memory.succeeded(r)
		w.keep(r)
	}
}

// judgeStart decides whether a replica that does not serve yet stays.
func (w *world) judgeStart(r *replica, all map[string]*replica) {
	if r.Progress == Assigned {
		for _, name := range r.After {
			if o := all[name]; o != nil {
				r.after = append(r.after, o)
			}
		}
	}
	stays := slices.IndexFunc(r.after, func(o *replica) bool { return o.Progress != Leaving })
	switch {
	case stays >= 0:
		r.leave("it waited for the place of "+r.after[stays].Name+", which stays", "")
	case !w.at.After(w.deadline(r)):
		w.keep(r)
	case len(r.after) > 0:
		late := slices.MinFunc(r.after, func(a, b *replica) int { return a.Since.Compare(b.Since) })
		w.withdraw(r, fmt.Sprintf("it waited for %s, which did not leave within %s", late.Name,
			w.at.Sub(r.Since).Round(time.Second)))
	default:
		what := "it had not begun to load after "
		if r.Progress == Starting {
			what = "it did not finish loading within "
		}
		w.withdraw(r, what+w.at.Sub(r.Since).Round(time.Second).String())
	}
}

// deadline returns the time by which a replica must serve. A replica that waits for others to leave gets
// LeaveTimeout + StartTimeout, counted from its assignment or from when the other began to leave, whichever is
// later. If it waits for several, the earliest such time counts. Any other replica gets startLimit, and
// LeaveTimeout in addition if it has waited for others and has not begun to load.
func (w *world) deadline(r *replica) (until time.Time) {
	until = r.Since.Add(w.startLimit(r.model))
	if r.Progress == Assigned && len(r.After) > 0 {
		until = until.Add(w.options.LeaveTimeout)
	}
	for i, o := range r.after {
		began := o.Since
		if began.Before(r.Since) {
			began = r.Since
		}
		if late := began.Add(w.options.LeaveTimeout + w.options.StartTimeout); i == 0 || late.Before(until) {
			until = late
		}
	}
	return until
}

// withdraw makes a replica leave because it has not started in time.
func (w *world) withdraw(r *replica, why string) {
	w.memory.failed(w.options, w.at, r, why)
	r.leave(why, "")
}

// startLimit returns how long a replica of a model may take to start.
func (w *world) startLimit(m *model) time.Duration {
	expected := max(m.Loads.Device, m.Loads.Host, m.Loads.Disk)
	return max(w.options.StartTimeout, seconds(w.options.StartLoads*expected.Seconds()))
}

// keep adds a replica to those that stay, or to those that stay until others serve.
func (w *world) keep(r *replica) {
	m := r.model
	r.evicted = slices.ContainsFunc(r.on, func(d *device) bool { return d.Draining || d.Leaving || d.Quarantined })
	switch old := r.evicted || r.Outdated; {
	case old && r.Progress < Up:
		r.leaveOld("it does not serve yet")
	case old:
		m.old = append(m.old, r)
	default:
		m.replicas = append(m.replicas, r)
	}
}

// whyOld returns why a replica is to be replaced, as a sentence about it, and as a clause about its name.
func (r *replica) whyOld() (sentence, clause string) {
	switch {
	case slices.ContainsFunc(r.on, func(d *device) bool { return d.Draining || d.Leaving }):
		return "its device is draining", "whose device is draining"
	case r.evicted:
		return "its device is quarantined", "whose device is quarantined"
	case r.Outdated:
		return "it no longer matches the deployment", "which no longer matches the deployment"
	}
	return "it moves to a better device", "which moves to a better device"
}

// leaveOld makes a replica that is to be replaced leave. The last part of the reason is given.
func (r *replica) leaveOld(and string) {
	why, _ := r.whyOld()
	r.leave(why+", and "+and, "")
}

// whyReplaced returns why a substitute of a replica starts.
func (r *replica) whyReplaced() string {
	_, why := r.whyOld()
	return "it replaces " + r.Name + ", " + why
}

// pair matches replicas with their substitutes by the memory. A move has failed if its substitute is gone.
func (w *world) pair(all map[string]*replica) {
	for _, name := range slices.Sorted(maps.Keys(w.memory.Substitutes)) {
		sub := w.memory.Substitutes[name]
		r, old := all[name], all[sub.Replaces]
		if old == nil || old.leaves || old.substitute != nil {
			continue
		}
		m := old.model
		switch i := slices.Index(m.replicas, old); {
		case r == nil || r.leaves || r == old || r.model != m || slices.Contains(m.old, r):
			if sub.Moves {
				memory := w.memory.Models[m.Name]
				memory.NoMove = w.at.Add(w.options.MoveBackoff)
				w.memory.Models[m.Name] = memory
			}
			continue
		case i >= 0 && !sub.Moves: // it matches the deployment again, and its device does not drain
			continue
		case i >= 0:
			m.replicas = slices.Delete(m.replicas, i, i+1)
			m.old = append(m.old, old)
			old.moving = true
		}
		old.moving = sub.Moves
		old.substitute, r.replaces = r, old
	}
	for _, m := range w.models {
		sortByName(m.replicas)
		sortByName(m.old)
	}
}

// sortByName sorts replicas, so that the order in which they were judged does not matter.
func sortByName(all []*replica) {
	slices.SortFunc(all, func(a, b *replica) int { return cmp.Compare(a.Name, b.Name) })
}

// seconds returns a duration of at most a year.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(0, s), 3e7) * float64(time.Second))
}
