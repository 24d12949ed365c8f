package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"troupe/core/units"
)

// rebalance starts at most one substitute on a better device, for a model for which nothing else changes, and only
// if no other move is in progress.
func (w *world) rebalance() {
	for _, m := range w.models {
		if slices.ContainsFunc(m.old, func(r *replica) bool { return r.moving }) {
			return
		}
	}
	for _, m := range w.models {
		if w.steady(m) && (w.spread(m) || w.relieve(m)) {
			return
		}
	}
}

// steady reports whether a model has the replicas that it wants, and all of them have served for SettleFor.
func (w *world) steady(m *model) bool {
	memory := w.memory.Models[m.Name]
	if !m.Sized || m.held || m.Pinned || m.refused || m.Group > 1 || m.leaving > 0 || len(m.old) > 0 ||
		len(m.replicas) == 0 || len(m.replicas) != m.want.Replicas || w.at.Before(memory.NoMove) ||
		w.at.Sub(memory.Changed) < w.options.SettleFor {
		return false
	}
	return !slices.ContainsFunc(m.replicas, func(r *replica) bool {
		return r.Progress < Up || w.at.Sub(r.Since) < w.options.SettleFor || r.on[0].Silent
	})
}

// spread moves a replica from the device with the most replicas of the model, if that has at least two more
// than the target, or one more and its node at least two more than the target's node. It does not join
// other models on its target, unless they are on its device too.
func (w *world) spread(m *model) bool {
	nodes := m.siblingsOn()
	var from []*device
	most := 0
	for _, r := range m.replicas {
		if !slices.Contains(from, r.on[0]) {
			from = append(from, r.on[0])
		}
		most = max(most, nodes[r.on[0].Node])
	}
	if len(from) == len(m.replicas) && !w.uneven(nodes, most) {
		return false
	}
	slices.SortFunc(from, func(a, b *device) int {
		return cmp.Or(cmp.Compare(b.siblings(m), a.siblings(m)), cmp.Compare(nodes[b.Node], nodes[a.Node]),
			cmp.Compare(a.Name, b.Name))
	})
	q := request{model: m, urgency: Headroom, siblings: true}
	for _, a := range from {
		on, _ := w.groupOf(q, here, func(b *device) bool {
			return min(1, b.shared(m)) <= min(1, a.shared(m)) && w.better(m, nodes, a, b)
		})
		if on != nil {
			b := on[0]
			return w.move(m, a, b, m.spreadAt(a, nodes)+", and "+m.spreadAt(b, nodes))
		}
	}
	return false
}

// spreadAt returns how many replicas of a model a device and its node have, as a sentence.
func (m *model) spreadAt(d *device, nodes map[string]int) string {
	return fmt.Sprintf("%s has %s of the model and its node %d", d.Name, units.Count(d.siblings(m), "replica"),
		nodes[d.Node])
}

// uneven reports whether a node has at least two replicas of a model fewer than the one with the most.
func (w *world) uneven(nodes map[string]int, most int) bool {
	return most >= 2 && slices.ContainsFunc(w.devices, func(d *device) bool { return most-nodes[d.Node] >= 2 })
}

// better reports whether a replica of a model moves from device a to b: the sum of squares of its replicas
// per device decreases, or stays and the one per node decreases.
func (w *world) better(m *model, nodes map[string]int, a, b *device) bool {
	more := a.siblings(m) - b.siblings(m)
	return more >= 2 || more >= 1 && nodes[a.Node]-nodes[b.Node] >= 2
}

// relieve moves a replica that shares a busy device with other models to one without replicas, after its
// residence. Its node has more replicas of the model than the target's, or is the same one.
func (w *world) relieve(m *model) bool {
	nodes, busy := m.siblingsOn(), w.options.ShareBelow
	if m.Priority == Batch {
		busy = w.options.FillBelow
	}
	for _, r := range m.replicas {
		a := r.on[0]
		if a.Utilization < busy || a.shared(m) == 0 || !w.rested(r) {
			continue
		}
		on, _ := w.groupOf(request{model: m, urgency: Headroom}, here, func(b *device) bool {
			empty := !slices.ContainsFunc(b.replicas, here)
			return empty && (a.Node == b.Node || nodes[a.Node] > nodes[b.Node])
		})
		if on != nil {
			return w.move(m, a, on[0], fmt.Sprintf("%s, which other models share, is %.0f%% in use, and %s is empty",
				a.Name, 100*a.Utilization, on[0].Name))
		}
	}
	return false
}

// shared returns the number of replicas with which a model shares a device, of those that stay. Batch models do not
// count for others, since they use what is left.
func (d *device) shared(m *model) (n int) {
	for _, r := range d.replicas {
		if here(r) && r.model != m && (r.model.Priority != Batch || m.Priority == Batch) {
			n++
		}
	}
	return n
}

// move starts a substitute on one device for the replica with the fewest sequences on another.
func (w *world) move(m *model, from, to *device, why string) bool {
	on := slices.DeleteFunc(slices.Clone(m.replicas), func(r *replica) bool { return r.on[0] != from })
	old := removal(m, on)
	m.replicas = slices.DeleteFunc(m.replicas, func(r *replica) bool { return r == old })
	m.old = append(m.old, old)
	old.moving = true
	why = fmt.Sprintf("%s moves from %s to %s: %s", old.Name, from.Name, to.Name, why)
	w.start(m, Headroom, []*device{to}, old, why)
	return true
}
