package simulate

import (
	"math"
	"time"

	"troupe/core/cost"
	"troupe/core/demand"
	"troupe/core/deployment"
	"troupe/core/hbm"
	"troupe/core/hostcache"
	"troupe/core/planner"
	"troupe/core/quarantine"
	core "troupe/core/replica"
	"troupe/core/schedule"
)

// observation returns the cluster as the planner sees it.
func (s *simulation) observation() (seen planner.Observation) {
	seen.Deployments = make([]planner.Deployment, 0, len(s.cfg.Deployments))
	for _, d := range s.cfg.Deployments {
		seen.Deployments = append(seen.Deployments, s.models[d.Name].observed())
	}
	for _, n := range s.nodeOrder {
		if n.gone {
			seen.Away = append(seen.Away, schedule.Away{Node: n.Name, Since: n.seen})
			continue
		}
		node := planner.Node{Name: n.Name, Draining: n.draining}
		for _, d := range n.devices {
			node.GPUs = append(node.GPUs, d.Device.Name)
		}
		seen.Nodes = append(seen.Nodes, node)
	}
	return seen
}

// observed returns the deployment as the planner sees it.
func (m *model) observed() planner.Deployment {
	status := m.status()
	out := planner.Deployment{
		Model: schedule.Model{
			Name: m.Name, Priority: m.Priority, SLO: schedule.SLO{TTFT: m.SLO.TTFT, TPOT: m.SLO.TPOT},
			Min: m.MinReplicas, Max: m.MaxReplicas, Replicas: m.active(), Sized: true, Group: m.Group,
			Devices: m.permitted, Weights: pages(m.WeightBytes), Need: m.needs(), Loads: m.loadTimes(),
			IdleAfter: m.IdleAfter, WakeWait: m.WakeWait, Demand: m.demand(status),
		},
		Revision: m.stored, Replicas: m.active(), Planned: m.isPlanned, Assigned: m.assigned,
		Withdrawn: m.withdrawn, Intended: m.intended, Leader: routerNode,
	}
	if m.byHand || m.level != deployment.NoLevel || len(m.preemptions) > 0 {
		out.Model.HeldBy = "an operator"
	}
	if m.IdleAfter == 0 && m.sim.cfg.Policies.IdleAfter == 0 {
		out.Model.IdleAfter = math.MaxInt64 // never
	}
	if m.level == deployment.Parked {
		out.Model.Replicas = 0
	}
	if schedule.RestOf(m.wanted, m.MinReplicas, m.MaxReplicas) == schedule.Stopped {
		out.Model.Min, out.Model.Max = 0, 0
	}
	for _, p := range m.preemptions {
		out.Reserved = append(out.Reserved, p.Replica)
	}
	d := &out.Model.Demand
	out.Active = d.Running+d.Waiting+d.Pending > 0 || d.Recent > 0
	out.Reports = make([]planner.Report, 0, len(status.Replicas))
	for _, p := range status.Replicas {
		out.Reports = append(out.Reports, m.placed(p))
	}
	return out
}

// active returns the number of replicas that are stored, without those that an operator has taken away.
func (m *model) active() int { return max(0, m.wanted-len(m.preemptions)) }

// placed returns how far a replica has come.
func (m *model) placed(p deployment.ReplicaProgress) planner.Report {
	out := planner.Report{Placed: schedule.Placed{Name: p.Replica, Model: m.Name,
		Progress: schedule.Progress(p.Progress), Since: p.Since, Failure: p.Failure, Outdated: p.Outdated}, At: p.At,
		Quarantined: p.Quarantined}
	out.Files, out.Served = p.Files, p.Served
	if r := m.replica(p.Replica, p.Node); r != nil {
		out.Streams = r.load.running + r.load.waiting
		out.Devices = make([]string, 1, 1+len(r.group.others))
		out.Devices[0] = r.device.name()
		for _, d := range r.group.others {
			out.Devices = append(out.Devices, d.name())
		}
		return out
	}
	for _, d := range m.assignedTo(p.Replica) {
		out.Devices = append(out.Devices, d.name())
	}
	if len(out.Devices) == 0 {
		for _, gpu := range p.GPUs {
			out.Devices = append(out.Devices, p.Node+"/"+gpu)
		}
	}
	return out
}

// demand returns what requests ask of the deployment, and how they are served.
func (m *model) demand(status *deployment.Status) schedule.Demand {
	now := m.sim.key.at
	out := schedule.Demand{Rate: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1, Pending: status.Wakes,
		Places: m.MaxSequences}
	if status.Oldest > 0 {
		out.Oldest = now.Add(-status.Oldest)
	}
	figures := m.window.Figures(now)
	if rate, known := figures.Rate(); known {
		out.Rate, out.Recent = rate, float64(figures.Recent)/demand.RecentSeconds
	}
	for _, t := range []struct {
		of demand.Sketch
		to *time.Duration
	}{{figures.TTFT, &out.TTFT}, {figures.TPOT, &out.TPOT}} {
		if p99, known := t.of.Quantile(0.99); known {
			*t.to = time.Duration(p99 * float64(time.Second))
		}
	}
	serving, blocks, free, use := 0, 0, 0, 0.0
	for _, r := range m.replicas {
		r.sync(m.sim.key)
		if !r.serving() {
			continue
		}
		s := r.machine.Status()
		serving++
		out.Running += s.Running
		out.Waiting += s.Waiting
		blocks, free = blocks+s.Blocks.Blocks, free+s.Blocks.Free
		use += r.use.of(s.Totals.Use.Steps, now)
	}
	if blocks > 0 {
		out.KV = float64(blocks-free) / float64(blocks)
	}
	if serving > 0 {
		out.Utilization = use / float64(serving)
	}
	return out
}

// capacities returns the requests per second that 1, 2 and so on replicas serve within the SLO, or nil if they are
// unknown.
func (m *model) capacities() []float64 {
	figures := m.window.Figures(m.sim.key.at)
	q := cost.Requests{Prompt: lengthsOf(figures.Prompt), Output: lengthsOf(figures.Output), TTFT: m.SLO.TTFT,
		TPOT: m.SLO.TPOT}
	var carry []cost.Replica
	for _, r := range m.replicas {
		r.sync(m.sim.key)
		s := r.machine.Status()
		q.Computed, q.Cached = q.Computed+s.Totals.TokensIn, q.Cached+s.Totals.TokensCached
		if r.serving() {
			carry = append(carry, r.carries(s))
		}
	}
	return cost.LeastCapacities(q, carry, m.MaxReplicas)
}

// carries returns what the replica has for requests. The costs of its steps are those of the scenario, as if
// calibrated.
func (r *replica) carries(s core.Status) cost.Replica {
	steps, known := r.times.(cost.Steps)
	return cost.Replica{Steps: steps, Known: known, Places: r.model.MaxSequences, StepTokens: r.model.StepTokens,
		KVTokens: float64(s.Blocks.Blocks * r.model.BlockTokens)}
}

// lengthsOf returns the lengths of prompts or outputs.
func lengthsOf(s demand.Sketch) (l cost.Lengths) {
	l.Count = s.Count()
	l.Mean, _ = s.Mean()
	l.P99, _ = s.Quantile(0.99)
	return l
}

// loadTimes returns the expected times until a replica serves, by the place of its weights.
func (m *model) loadTimes() schedule.LoadTimes {
	for _, d := range m.sim.devices {
		if m.mayUse(d) {
			start := d.Costs.Open + d.Costs.Capture
			copying := func(perSecond float64) time.Duration {
				return time.Duration(float64(m.WeightBytes) / perSecond * float64(time.Second))
			}
			return schedule.LoadTimes{Device: start, Host: start + copying(d.Costs.Link),
				Disk: start + copying(min(d.Costs.Link, d.node.Disk))}
		}
	}
	return schedule.LoadTimes{}
}

// deviceReports returns the status of all devices of nodes that are members.
func (s *simulation) deviceReports() (all []schedule.Device) {
	for _, d := range s.devices {
		if n := d.node; n.gone {
			continue
		} else if n.lost {
			all = append(all, schedule.Device{Name: d.name(), Node: d.Node, Memory: d.Memory, Silent: true,
				SilentSince: n.seen, Utilization: -1})
			continue
		}
		all = append(all, d.status())
	}
	return all
}

// status returns the status of the device for the planner.
func (d *device) status() schedule.Device {
	out := schedule.Device{Name: d.name(), Node: d.Node, Memory: d.Memory, KVReserve: d.sim.cfg.KVReserve,
		Draining:    d.node.draining,
		Quarantined: d.health.State() != quarantine.Healthy}
	if q, is := d.health.Current(); is {
		out.Fault = q.Detail
	}
	use := 0.0
	for _, r := range d.replicas {
		if r.machine.State() == core.Serving {
			use += r.use.last
		}
	}
	out.Utilization = min(1, use)
	on := make(map[string]bool)
	for _, c := range d.memory.Copies() {
		on[c.Content.Revision] = true
		if len(c.Users) == 0 {
			out.Unused += int64(c.Pages()) * hbm.PageBytes
		}
	}
	for _, c := range d.sim.cfg.Deployments {
		m := d.sim.models[c.Name]
		if out.Folders = append(out.Folders, m.Name); on[m.digest()] {
			out.Weights = append(out.Weights, m.Name)
		}
		if d.node.cache.State(d.image(m)) == hostcache.Ready {
			out.Images = append(out.Images, m.Name)
		}
	}
	return out
}

// usage is the share of the time in which steps of a replica ran, over the last window.
type usage struct {
	samples []sample
	last    float64
}

// sample is the time in steps at a time.
type sample struct {
	at   time.Time
	busy time.Duration
}

// of adds a sample and returns the share since the oldest one in the window.
func (u *usage) of(busy time.Duration, now time.Time) float64 {
	for len(u.samples) > 1 && now.Sub(u.samples[1].at) >= demand.Length {
		u.samples = u.samples[1:]
	}
	if n := len(u.samples); n == 0 || now.Sub(u.samples[n-1].at) >= demand.SlotLength {
		u.samples = append(u.samples, sample{now, busy})
	}
	if first := u.samples[0]; now.After(first.at) {
		u.last = min(1, float64(busy-first.busy)/float64(now.Sub(first.at)))
	}
	return u.last
}
