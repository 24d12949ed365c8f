package planner

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/core/hbm"
	"troupe/core/lora"
	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

// Adapters are the adapters of the cluster. All functions must be set, or none.
type Adapters struct {
	// Uses returns the recent requests for adapters at the gateway of this node, of 256 adapters at most.
	Uses func() []*messages.AdapterDemand
	// Registered returns the adapters of a model.
	Registered func(model string) []*messages.AdapterSpec
}

const (
	usesInterval = 2 * time.Second  // between two reports of a node
	usesFor      = 30 * time.Second // after which a report no longer counts
)

// used is the last report of a node.
type used struct {
	at  time.Time
	all []*messages.AdapterDemand
}

// reportUses reports the recent requests for adapters at this node to the planner that leads.
func (p *planner) reportUses(ctx actor.Context) {
	now := supervise.Now(ctx)
	leader, _ := p.Leader()
	if p.Adapters.Uses == nil || leader == "" || now.Sub(p.usesAt) < usesInterval {
		return
	}
	p.usesAt = now
	report := &messages.AdaptersUsed{Node: p.Node, Adapters: p.Adapters.Uses()}
	if leader == p.Node {
		p.onAdaptersUsed(ctx, report)
		return
	}
	p.sendTo(ctx, leader, report)
}

func (p *planner) onAdaptersUsed(ctx actor.Context, msg *messages.AdaptersUsed) {
	p.uses[msg.GetNode()] = used{supervise.Now(ctx), msg.GetAdapters()}
}

// addAdapters adds to an observation which adapters are popular, and which ones the replicas have.
func (p *planner) addAdapters(o *core.Observation, view *messages.ClusterView, now time.Time) {
	if p.Adapters.Registered == nil {
		return
	}
	for node, u := range p.uses {
		if now.Sub(u.at) > usesFor {
			delete(p.uses, node)
		}
	}
	uses := make(map[string]map[string]schedule.Adapter)
	for _, node := range slices.Sorted(maps.Keys(p.uses)) {
		addUses(uses, p.uses[node].all)
	}
	p.pools = make(map[string]*messages.ActorRef)
	for i := range o.Deployments {
		d := &o.Deployments[i]
		if used := uses[d.Model.Name]; len(used) > 0 {
			d.Adapters = popular(used, p.Adapters.Registered(d.Model.Name))
		}
	}
	for _, r := range view.GetReplicas() {
		if d := o.Find(r.GetModel()); d != nil && takesAdapters(r) {
			d.Pools = append(d.Pools, poolOf(r))
			p.pools[r.GetName()] = r.GetActor()
		}
	}
}

// addUses adds the requests at a node to those of the others, by model and adapter.
func addUses(to map[string]map[string]schedule.Adapter, all []*messages.AdapterDemand) {
	for _, a := range all {
		of := to[a.GetModel()]
		if of == nil {
			of = make(map[string]schedule.Adapter)
			to[a.GetModel()] = of
		}
		sum := of[a.GetAdapter()]
		if uses := a.GetUses(); uses > 0 && !math.IsInf(uses, 1) {
			sum.Uses += uses
		}
		if last := timeOf(a.GetLastUsed()); last.After(sum.Last) {
			sum.Last = last
		}
		of[a.GetAdapter()] = sum
	}
}

// popular returns the registered adapters of a model that were requested.
func popular(uses map[string]schedule.Adapter, registered []*messages.AdapterSpec) (all []schedule.Adapter) {
	for _, a := range registered {
		if of, requested := uses[a.Key()]; requested {
			of.Key, of.Pages = a.Key(), max(1, hbm.PagesOf(int64(a.GetBytes())))
			all = append(all, of)
		}
	}
	return all
}

// takesAdapters reports whether a replica serves and can load adapters.
func takesAdapters(r *messages.ReplicaStatus) bool {
	b := r.GetBackend()
	return r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING && r.GetActor() != nil &&
		(b == nil || slices.Contains(b.GetCapabilities(), backend.Adapters.String()))
}

// poolOf returns the adapter pool of a replica, with the adapters that are there or being loaded.
func poolOf(r *messages.ReplicaStatus) schedule.AdapterPool {
	p := schedule.AdapterPool{Replica: r.GetName(), Pages: int(r.GetAdapterCounts().GetPages())}
	for _, h := range r.GetAdapters() {
		switch h.GetState() {
		case messages.AdapterState_ADAPTER_STATE_LOADING, messages.AdapterState_ADAPTER_STATE_IDLE,
			messages.AdapterState_ADAPTER_STATE_ACTIVE:
			key := (&messages.AdapterSpec{Name: h.GetName(), Revision: h.GetRevision()}).Key()
			inUse := h.GetPinned() || h.GetSequences() > 0 || h.GetState() == messages.AdapterState_ADAPTER_STATE_ACTIVE
			p.Held = append(p.Held, schedule.HeldAdapter{Key: key, InUse: inUse})
		}
	}
	return p
}

// prefetch tells a replica which adapters to fetch ahead.
func (p *planner) prefetch(ctx actor.Context, e core.Prefetch) {
	to, known := p.pools[e.Replica]
	if !known {
		return
	}
	msg := &messages.PrefetchAdapters{}
	for _, spec := range p.Adapters.Registered(e.Model) {
		i := slices.IndexFunc(e.Adapters, func(a schedule.Ahead) bool { return a.Key == spec.Key() })
		if i >= 0 {
			msg.Adapters = append(msg.Adapters, &messages.AdapterAhead{Adapter: spec, Uses: usesOf(e.Adapters[i])})
		}
	}
	ctx.Send(actor.NewPID(to.GetAddress(), to.GetId()), msg)
}

// usesOf converts the popularity of an adapter to that in a pool, where requests count for a shorter time.
func usesOf(a schedule.Ahead) float64 {
	return a.Uses * float64(lora.HalfLife) / float64(schedule.UseHalfLife)
}
