package schedule

import (
	"fmt"
	"slices"
)

// retire makes replicas that are to be replaced leave when they are no longer needed: when their substitute serves, or
// as many others as the model wants. If the model wants more meanwhile, the replica stays beside its substitute.
func (w *world) retire(m *model) {
	for _, r := range slices.Clone(m.old) {
		enough := m.serving() > m.want.Replicas
		switch s := r.substitute; {
		case s != nil && s.Progress == Up && enough:
			r.leaveOld("its substitute serves")
		case s != nil && s.Progress == Up:
			r.unpair()
		case m.Sized && m.want.Replicas > 0 && m.current() >= m.want.Replicas:
			r.leaveOld("enough others serve")
		}
	}
}

// unpair ends the pair of a replica and its substitute, so that they count as two.
func (r *replica) unpair() {
	r.substitute.replaces, r.substitute = nil, nil
	if m := r.model; r.moving {
		r.moving = false
		m.old = slices.DeleteFunc(m.old, func(o *replica) bool { return o == r })
		m.replicas = append(m.replicas, r)
	}
}

// current returns the number of replicas that serve and stay, and are not substitutes.
func (m *model) current() (n int) {
	for _, r := range m.replicas {
		if r.Progress == Up && r.replaces == nil {
			n++
		}
	}
	return n
}

// renew starts substitutes of outdated replicas: beside them, also on the same devices, and at most one more
// than the maximum at once. Where there is no room, an outdated replica leaves first, while all others
// serve, or all that share weights with it on the device, if they are in the way.
func (w *world) renew(m *model) {
	for m.Sized && len(m.replicas)+len(m.old) <= m.most() {
		outdated := m.unpaired(func(r *replica) bool { return !r.evicted && !r.moving })
		if len(outdated) == 0 {
			return
		}
		old := removal(m, outdated)
		q := request{model: m, urgency: Headroom, replaces: old, why: old.whyReplaced()}
		on, why := w.group(q, here)
		q.siblings = m.held || m.want.Replicas <= m.Min
		if on == nil && q.siblings && !m.incomplete() {
			on, why = w.group(q, here)
		}
		if on != nil {
			w.start(m, Headroom, on, old, q.why+"; "+on[0].Name+": "+why)
			continue
		}
		if m.incomplete() {
			return
		}
		leave := []*replica{old}
		without := func(r *replica) bool { return here(r) && !slices.Contains(leave, r) }
		if on, why = w.group(q, without); on == nil {
			leave = old.sharing(outdated)
			on, why = w.group(q, without)
		}
		if on == nil {
			if !m.refused {
				m.refused = true
				w.refuse(q, len(outdated))
			}
			return
		}
		for _, r := range leave {
			r.leaveOld("there is no room for a substitute beside it")
		}
		why = fmt.Sprintf("it replaces %s, which leaves first; %s: %s", old.Name, on[0].Name, why)
		w.start(m, Headroom, on, nil, why)
		return
	}
}

// sharing returns the replicas that share their weights with r on a device, r among them.
func (r *replica) sharing(all []*replica) (same []*replica) {
	for _, o := range all {
		on := func(d *device) bool { return slices.Contains(r.on, d) }
		if o.files == r.files && slices.ContainsFunc(o.on, on) {
			same = append(same, o)
		}
	}
	return same
}

// incomplete reports whether a replica of a model does not serve, or leaves.
func (m *model) incomplete() bool {
	return m.leaving > 0 || slices.ContainsFunc(m.replicas, func(r *replica) bool { return r.Progress < Up })
}
