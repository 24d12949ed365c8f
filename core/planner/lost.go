package planner

import (
	"slices"
	"strings"
	"time"

	"troupe/core/schedule"
)

// listWait is how long a node that is back may take to list its replicas.
const listWait = 3 * time.Second

// lost is a replica that was lost with its node. It may come back with it, so its name is not used meanwhile, and
// no replica of its model starts on the node before it is reported, or is gone.
type lost struct {
	model, node string
	back        time.Time // when the node was back; zero: it is away
}

// noteLost remembers the replicas of a plan that are on nodes that are away.
func (m *Machine) noteLost() {
	live := m.round.seen.live()
	for _, p := range m.round.record.Snapshot.Replicas {
		for _, device := range p.Devices {
			if node, _, _ := strings.Cut(device, "/"); !live[node] {
				m.lost[p.Name] = lost{model: p.Model, node: node}
			}
		}
	}
}

// recall forgets the lost replicas that are back, or do not come back: the cluster has forgotten their node, or
// the node is back and has listed its replicas.
func (m *Machine) recall(o *Observation, now time.Time) {
	live, reported := o.live(), make(map[string]bool)
	if len(m.lost) == 0 {
		return
	}
	for i := range o.Deployments {
		for _, r := range o.Deployments[i].Reports {
			reported[r.Name] = r.Progress > schedule.Assigned
		}
	}
	for name, l := range m.lost {
		away := slices.ContainsFunc(o.Away, func(a schedule.Away) bool { return a.Node == l.node })
		switch {
		case !live[l.node] && !away, reported[name], !l.back.IsZero() && now.Sub(l.back) >= listWait:
			delete(m.lost, name)
			continue
		case !live[l.node]:
			l.back = time.Time{}
		case l.back.IsZero():
			l.back = now
		}
		m.lost[name] = l
	}
}

// returning returns the models that may have replicas on a node that is back and has not listed them, by node.
func (m *Machine) returning() map[string][]string {
	all := make(map[string][]string)
	for _, l := range m.lost {
		if !l.back.IsZero() {
			all[l.node] = append(all[l.node], l.model)
		}
	}
	for node, models := range all {
		slices.Sort(models)
		all[node] = slices.Compact(models)
	}
	return all
}

// live returns the names of the nodes that are there.
func (o *Observation) live() map[string]bool {
	all := make(map[string]bool, len(o.Nodes))
	for _, n := range o.Nodes {
		all[n.Name] = true
	}
	return all
}
