package node

import (
	"context"
	"net/http"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/hostcache"
	"troupe/actors/model/replicaset"
	"troupe/actors/planner"
	"troupe/actors/supervise"
	"troupe/control"
	"troupe/engine/residency"
	"troupe/gateway"
	"troupe/internal/recorder"
	"troupe/messages"
	"troupe/node/adapteruse"
	"troupe/node/backend"
	"troupe/node/hierarchy"
	"troupe/node/membership"
	"troupe/node/metrics"
	"troupe/node/query"
	"troupe/observe/tree"
)

func (p *parts) openSystem(context.Context) error {
	p.registry = tree.New(p.onTreeEvent)
	p.system = hierarchy.NewSystem(p.cfg.Runtime, p.metrics, p.cfg.Log)
	p.dispatcher = supervise.NewDispatcher()
	p.canaries = residency.NewCanaries(residency.CanaryConfig{
		Node: p.cfg.Name, Version: p.cfg.Version, Now: p.cfg.Runtime.Now, WithTimeout: p.cfg.Runtime.WithTimeout,
		Publish: p.publish,
	})
	p.gpus.VerifyBy(p.canaries)
	p.others = &hostcache.OtherNodes{System: p.system, Plane: p.bulk, Peers: p.hostCaches, Log: p.cfg.Log}
	return nil
}

// hostCaches returns the host caches of the other nodes.
func (p *parts) hostCaches() (all []hostcache.Peer) {
	if p.members == nil {
		return nil
	}
	for _, m := range p.members.Live() {
		if m.GetName() != p.cfg.Name {
			all = append(all, hostcache.Peer{Node: m.GetName(), PID: actor.NewPID(m.GetAddress(), query.HostCache)})
		}
	}
	return all
}

func (p *parts) closeSystem() {
	p.system.Shutdown()
	p.dispatcher.Close()
}

// onTreeEvent publishes the events of actors. It omits those of sessions, which start and stop
// every second, except failures.
func (p *parts) onTreeEvent(e tree.Event) {
	if e.Actor != "session" || e.Kind == "actor.failed" {
		p.publish(e.Kind, e.ID, e.Detail)
	}
}

// composeBackend composes the control backend and the gateway, which uses a part of it.
func (p *parts) composeBackend(context.Context) error {
	view := &control.View{Conn: p.bus.Conn(), Node: p.cfg.Name, Runtime: p.cfg.Runtime}
	status := &backend.Status{
		Node: p.cfg.Name, System: p.system, GPUs: p.gpus.Names(), Lower: p.tiers.Names(),
		HostCache: p.cfg.WeightsHostBytes > 0 || p.cfg.WeightsDiskBytes > 0,
		NoRemote:  p.cfg.Tiers.LocalOnly,
	}
	models := &backend.ModelFiles{
		Node: p.cfg.Name, Roots: p.cfg.Roots, Loader: p.loaderOf, Inspect: p.inspect, Image: p.imageOf,
		Elsewhere: view.Sizes, Source: p.gpus.Source,
		Runtime: p.cfg.Runtime,
	}
	deployments := &backend.DeploymentControl{
		ModelFiles: models, Store: p.store, System: p.system, Catalogue: p.catalogue, Publish: p.publish,
		Log: p.cfg.Log,
	}
	adapters := &backend.AdapterControl{
		Store: p.store, Catalogue: p.catalogue, Roots: p.cfg.Roots, Open: p.gpus.OpenAdapter,
		Deployments: deployments.Deployments, Cluster: status.Cluster, Publish: p.publish, Runtime: p.cfg.Runtime,
		Use: &p.adapterUse,
	}
	p.recorder = recorder.New(p.cfg.Name, p.cfg.Runtime.Now, func() []byte { value, _ := p.secret.Get(); return value })
	p.gateway = p.newGateway(backend.Directory{DeploymentControl: deployments, Cache: &p.cache}, adapters, view)
	prefixes := &backend.Prefixes{Pins: &p.pins, Secret: p.secret, Catalogue: p.catalogue, Log: p.cfg.Log}
	p.control = &controls{
		status: status, models: models, deployments: deployments, adapters: adapters, prefixes: prefixes,
		Backend: backend.Backend{
			DeploymentBackend: deployments,
			AdapterBackend:    adapters,
			ReplicaBackend: &backend.ReplicaControl{
				System: p.system, Members: p.members.Live, Deployments: deployments.Deployments,
				Update: deployments.Update,
			},
			GPUBackend: &backend.GPUControl{System: p.system, Members: p.members.Live},
			KVBackend: &backend.KVControl{
				Status: status, Lower: p.tiers, Copies: p.copies, Prefixes: prefixes, Store: p.store,
				Deployment: deployments.Deployment, Gateway: p.gateway, Publish: p.publish,
			},
			KeyBackend: &backend.KeyControl{File: p.cfg.Keys, System: p.system},
			NodeBackend: &backend.NodeControl{
				Status: status, Registry: p.members, Drained: &p.drained, Store: p.store,
				Availability: p.availability, Sessions: p.calls.Open, Actors: p.registry.Snapshot,
			},
			PlannerBackend: &backend.PlannerControl{
				System: p.system, Store: p.store, Publish: p.publish,
				Leader: func() (*messages.Member, bool) {
					leader, _, known := p.members.Holder(planner.Role)
					return leader, known
				},
			},
		},
	}
	view.Backend = p.control.Backend
	p.metrics.MustRegister(metrics.Collector{Source: status, Runtime: p.cfg.Runtime}, metrics.Canaries{Of: p.canaries})
	return nil
}

func (p *parts) newGateway(models gateway.Directory, adapters gateway.Adapters, view *control.View) *gateway.Gateway {
	return gateway.New(gateway.Config{
		Directory: models, Adapters: adapters, Inspect: p.inspect, Roots: p.cfg.Roots, Digests: &p.digests,
		Image: p.imageOfRevision,
		Calls: p.calls, Root: p.system.Root, Actor: hierarchy.Gateway(p.system), Registry: p.metrics,
		Routes: map[string]http.Handler{"/tree": tree.Handler(view.Tree)},
		Keys:   p.cfg.Keys, Audit: p.audit.Log, Log: p.cfg.Log,
		Origins: p.cfg.WebConfig.Origins, BodyBytes: p.cfg.WebConfig.BodyBytes,
		Salt: p.secret.Salt, Causes: p.availability.Causes, Draining: p.nodes.Draining,
		AdapterServed: func(a *messages.AdapterSpec) {
			p.adapterUse.Served(adapteruse.Key{Model: a.GetModel(), Adapter: a.Key()}, p.cfg.Runtime.Now())
		},
		Quotas: p.shares, TrustedProxies: p.cfg.TrustedProxies, Runtime: p.cfg.Runtime, Recorder: p.recorder,
	})
}

func (p *parts) startActors(context.Context) (err error) {
	tiers := hierarchy.Tiers{
		Open: p.tiers, Plane: p.bulk, OnCopied: p.copies.Observe,
		MayBeRemote: func() bool { return len(p.gpus.All()) > 1 || len(p.members.Live()) > 1 },
	}
	leases := membership.Leases{Node: p.cfg.Name, Members: p.members}
	images := hierarchy.HostCache{
		Images: p.gpus.Images(), Budget: p.cfg.WeightsHostBytes, Disk: p.gpus.DiskImages(),
		DiskBudget: p.cfg.WeightsDiskBytes, Publish: p.publish, Plane: p.bulk,
		GPUs: p.gpus, AdapterDeleted: p.catalogue.Deleted,
	}
	p.gpus.UseOtherNodes(p.others)
	p.stopActors, err = hierarchy.Root{
		Devices: hierarchy.Devices{
			GPUs: p.gpus, KVReserve: p.cfg.kvReserve, Publish: p.publish, HostCache: images,
		},
		Tiers: tiers,
		Replicas: hierarchy.Replicas{
			GPUs: p.gpus, Tiers: tiers, Fence: &replicaset.Fence{}, Plane: p.bulk,
			CheckFolder: p.control.models.CheckFolder, Pins: p.control.prefixes.Pinned,
			HostCache: images, Watch: *p.cfg.Watch, Publish: p.publish,
			AdapterLoaded: func(model, key string) { p.adapterUse.Loaded(adapteruse.Key{Model: model, Adapter: key}) },
		},
		Router: hierarchy.Router{
			Members: p.nodes.Current, Sessions: p.calls.Open, Tiers: tiers, Adapters: p.catalogue.Reconcile,
			Cache: &p.cache, OnSynced: once(p.signals.routesKnown), Recorder: p.recorder,
		},
		Deployments: hierarchy.Deployments{
			HostCache: images,
			Store:     p.store, Leases: leases, Members: p.nodes.Current, Inspect: p.control.models.Sizes,
			Record:     p.control.deployments.RecordDigests,
			StoreLevel: p.control.deployments.StoreLevel, Publish: p.publish,
			OnWake: p.wakes.Woken, OnAwake: p.wakes.Served,
		},
		Planner: hierarchy.Planner{
			Leases: leases, Members: p.nodes.Current, Cache: &p.cache, Pause: p.plannerPause.Get,
			Assign: p.control.deployments.AssignAtRevision, Publish: p.publish, OnPlan: p.plans.Planned,
			Options:     p.cfg.Planning,
			AdapterUses: p.control.adapters.Popular, Adapters: p.catalogue.All,
			Costs: p.costs().Steps,
		},
		Control: control.Config{
			Conn: p.bus.Conn(), Backend: p.control.Backend, Version: p.cfg.Version, Node: p.cfg.Name,
			Audit: p.audit.Log, Log: p.cfg.Log, Guard: p.bus.Guard(), TrustAccounts: p.cfg.TrustAccounts,
			Synced: p.signals.informed, OnServing: once(p.signals.serving), Leaving: p.signals.leaving,
			Extra: []control.Endpoint{hierarchy.Infer(p.gateway)}, Runtime: p.cfg.Runtime,
			Recorder: p.recorder, OpenCalls: p.calls.Open,
		},
		Calls: p.calls, Shares: p.shares, Members: p.nodes.Current,
	}.Start(p.base())
	return err
}
