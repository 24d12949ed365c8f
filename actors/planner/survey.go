package planner

import (
	"cmp"
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

// survey asks all devices and host caches at once, and computes what replicas on these devices serve.
func (p *planner) survey(ctx actor.Context, e core.Survey) {
	incarnation, root, view, costs := p.incarnation, ctx.ActorSystem().Root, p.view, p.Costs
	members, revs := p.Members().GetMembers(), revisionsOf(p.Stored())
	supervise.Job(ctx, p.lifetime,
		func(context.Context) (*surveyed, error) {
			type asked struct {
				node   core.Node
				gpus   []*supervise.Answer
				images *supervise.Answer
			}
			var nodes []asked
			for _, n := range e.Nodes {
				i := slices.IndexFunc(members, func(m *messages.Member) bool { return m.GetName() == n.Name })
				if i < 0 { // it has just left
					continue
				}
				a := asked{node: n}
				for _, gpu := range n.GPUs {
					a.gpus = append(a.gpus,
						supervise.Request(root, p.GPU(members[i], gpu), &messages.GetGpu{}, surveyTimeout))
				}
				a.images = supervise.Request(root, p.HostCache(members[i]), &messages.GetHostCache{}, surveyTimeout)
				nodes = append(nodes, a)
			}
			var all []core.Device
			for _, a := range nodes {
				got, _ := a.images.Result()
				images, _ := got.(*messages.HostCacheStatus)
				var gpus []*messages.GpuStatus
				for _, answer := range a.gpus {
					got, _ := answer.Result()
					gpu, _ := got.(*messages.GpuStatus)
					gpus = append(gpus, gpu)
				}
				all = append(all, devicesOn(a.node, gpus, images, revs)...)
			}
			return &surveyed{devices: all, capacities: capacitiesOf(view, kindsOf(all), costs)}, nil
		},
		func(s *surveyed, err error) any {
			if s == nil {
				s = &surveyed{}
			}
			s.incarnation, s.round, s.err = incarnation, e.Round, err
			return s
		})
}

func (p *planner) onSurveyed(ctx actor.Context, msg *surveyed) {
	if msg.incarnation != p.incarnation {
		return
	}
	if msg.err != nil {
		panic(msg.err)
	}
	p.perform(ctx, p.machine.Surveyed(msg.round, msg.devices, msg.capacities, p.at(ctx)))
}

// revisions are the revisions of the files that deployments serve.
type revisions struct {
	names  map[string][]string // of deployments, by the digest of their revision
	digest map[string]string   // by the name of the deployment; empty: not known yet
}

func revisionsOf(all []*messages.ApplyDeployment) revisions {
	r := revisions{make(map[string][]string), make(map[string]string)}
	for _, d := range all {
		name, digest := d.GetSpec().GetName(), d.GetSpec().GetRevisionDigest()
		if r.digest[name] = digest; digest != "" {
			r.names[digest] = append(r.names[digest], name)
		}
	}
	return r
}

// devicesOn converts the devices of a node. Those that did not answer are nil.
func devicesOn(n core.Node, gpus []*messages.GpuStatus, images *messages.HostCacheStatus,
	revs revisions) (all []core.Device) {
	host, disk := modelsOf(images.GetImages(), revs), modelsOf(images.GetDisk().GetImages(), revs)
	islands := islandsOf(gpus)
	for i, g := range gpus {
		d := core.Device{Device: schedule.Device{
			Name: deviceName(n.Name, n.GPUs[i]), Node: n.Name, Draining: n.Draining, Leaving: n.Leaving,
			Silent: g == nil, Utilization: -1, Images: host, DiskImages: disk, Engine: engineOf(g.GetEngine()),
			Memory: int64(g.GetMemoryBytes()),
		}}
		if g != nil {
			d.Island = islands[g.GetUuid()]
			fill(&d, g, revs)
		}
		all = append(all, d)
	}
	return all
}

// fill sets what a device reports.
func fill(d *core.Device, g *messages.GpuStatus, revs revisions) {
	d.Kind = g.GetProduct()
	d.Failed = g.GetQuarantine().GetCause() == messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST
	d.Fault = g.GetQuarantine().GetDetail()
	d.Quarantined = g.GetState() == messages.GpuState_GPU_STATE_QUARANTINED
	switch u := g.GetUtilization(); {
	case u != nil && u.Utilization != nil:
		d.Utilization = u.GetUtilization()
	case u.GetObserved().AsDuration() > 0: // it is not more, whatever the peaks of the device are
		d.Utilization = u.GetTimeShare()
	}
	if total := g.GetMemoryBytes(); total > 0 {
		d.KVReserve = float64(g.GetBudget().GetKvReserve()) / float64(total)
	}
	d.Held, d.Files = make(map[string]int64), make(map[string]int64)
	for _, r := range g.GetBudget().GetShares() {
		d.Held[r.GetReplica()] += int64(r.GetFixed() + r.GetKvMinBytes())
	}
	for _, w := range g.GetWeights() {
		switch users := w.GetUsers(); {
		case w.GetLoading():
		case len(users) > 0:
			d.Weights = append(d.Weights, modelsWith(w.GetModel(), w.GetRevisionDigest(), revs)...)
			if digest := w.GetRevisionDigest(); digest != "" {
				d.Files[digest] = max(d.Files[digest], int64(w.GetBytes()))
			}
		default:
			d.Weights = append(d.Weights, modelsWith(w.GetModel(), w.GetRevisionDigest(), revs)...)
			d.Unused += int64(w.GetBytes())
		}
		if users := w.GetUsers(); len(users) > 0 {
			d.Held[users[0]] += int64(w.GetBytes())
		}
	}
	slices.Sort(d.Weights)
	d.Weights = slices.Compact(d.Weights)
	d.Use = useOf(g, d.Utilization)
}

// useOf returns the utilization of a device by each replica: all of it by the only one, or by their shares of
// its turns.
func useOf(g *messages.GpuStatus, utilization float64) map[string]float64 {
	replicas := g.GetBudget().GetReplicas()
	if utilization < 0 {
		return nil
	}
	if len(replicas) == 1 {
		return map[string]float64{replicas[0]: utilization}
	}
	use := make(map[string]float64)
	for _, t := range g.GetTurns() {
		use[t.GetReplica()] = utilization * t.GetShare()
	}
	return use
}

// modelsWith returns the deployments that serve a revision, and the one that loaded the weights, unless it serves
// another revision now.
func modelsWith(model, revision string, of revisions) []string {
	all := slices.Clone(of.names[revision])
	other := revision != "" && of.digest[model] != "" && of.digest[model] != revision
	if model != "" && !other && !slices.Contains(all, model) {
		all = append(all, model)
	}
	return all
}

// modelsOf returns the models whose weights have an image.
func modelsOf(images []*messages.HostImage, revs revisions) (all []string) {
	for _, i := range images {
		if i.GetRevisionDigest() != "" { // it is complete
			all = append(all, modelsWith(i.GetModel(), i.GetRevisionDigest(), revs)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// islandsOf returns the island of each device by UUID. Its name is the least UUID of the devices that links connect.
func islandsOf(gpus []*messages.GpuStatus) map[string]string {
	island := make(map[string]string)
	linked := false
	for _, g := range gpus {
		if g != nil {
			island[g.GetUuid()] = g.GetUuid()
		}
	}
	for range gpus { // each pass joins at least one more device
		for _, g := range gpus {
			for _, n := range g.GetFacts().GetNear() {
				other, known := island[n.GetUuid()]
				if n.GetNvlinks() == 0 || !known {
					continue
				}
				linked = true
				least := min(cmp.Or(other, n.GetUuid()), island[g.GetUuid()])
				island[g.GetUuid()], island[n.GetUuid()] = least, least
			}
		}
	}
	if !linked { // no pair is closer than another
		return nil
	}
	return island
}
