package schedule

import (
	"fmt"
	"slices"
)

// retire makes the replicas leave that are to be replaced and are not needed any more: their substitute
// serves, or as many others serve as the model wants.
func (w *world) retire(m *model) {
	for _, r := range slices.Clone(m.old) {
		up := 0
		for _, o := range m.replicas {
			if o.Progress == Up && (o.replaces == nil || o.replaces == r) {
				up++
			}
		}
		switch s := r.substitute; {
		case s != nil && s.Progress == Up:
			r.leave(r.whyOld()+", and its substitute serves", "")
		case m.Sized && m.want.Replicas > 0 && up >= m.want.Replicas:
			r.leave(r.whyOld()+", and others serve", "")
		}
	}
}

// renew starts substitutes of outdated replicas: beside them, also on the same devices, and at most one more
// than the maximum at once. Where there is no room, an outdated replica leaves first, while all others
// serve.
func (w *world) renew(m *model) {
	for m.Sized && len(m.replicas)+len(m.old) <= m.most() {
		outdated := m.unpaired(func(r *replica) bool { return !r.evicted && !r.moving })
		if len(outdated) == 0 {
			return
		}
		old := removal(m, outdated)
		q := request{model: m, urgency: Headroom, siblings: m.held || m.want.Replicas <= m.Min, replaces: old}
		if on, why := w.group(q, here); on != nil {
			w.start(m, Headroom, on, old, fmt.Sprintf("it replaces %s: %s; %s: %s", old.Name, old.whyOld(),
				on[0].Name, why))
			continue
		}
		if m.incomplete() {
			return
		}
		without := func(r *replica) bool { return here(r) && r != old }
		on, why := w.group(q, without)
		if on == nil {
			if !m.refused {
				m.refused = true
				w.refuse(q, len(outdated))
			}
			return
		}
		old.leave(old.whyOld()+", and there is no room for a substitute beside it", "")
		w.start(m, Headroom, on, nil, fmt.Sprintf("it replaces %s, which leaves first; %s: %s", old.Name, on[0].Name, why))
		return
	}
}

// incomplete reports whether a replica of a model does not serve, or leaves.
func (m *model) incomplete() bool {
	return m.leaving > 0 || slices.ContainsFunc(m.replicas, func(r *replica) bool { return r.Progress < Up })
}
