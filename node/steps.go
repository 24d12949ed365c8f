package node

import (
	"context"

	"troupe/node/apply"
	"troupe/node/steps"
	"troupe/node/stored"
)

// steps returns the start steps in order. A stop, or a failed start, undoes them in reverse order.
// Steps that wait for the store explain why.
func (p *parts) steps() []steps.Step {
	waiting := stored.Waiting{Nodes: p.askPeer, Log: p.cfg.Log, Runtime: p.cfg.Runtime}.Explain
	cfg := apply.Configuration{
		Deployments: p.cfg.Deployments, Adapters: p.cfg.Adapters, Roots: p.cfg.Roots, Log: p.cfg.Log,
	}
	return []steps.Step{
		{Name: "devices", Start: p.takeDevices, Stop: func() { p.gpus.Close() }},
		{Name: "web", Start: p.openWeb, Stop: func() { p.web.Close() }}, // answers only probes at first
		{Name: "audit log", Start: p.openAudit, Stop: func() { p.audit.Close() }},
		{Name: "software devices", Start: p.openSoftwareDevices}, // closed with the devices
		{Name: "bulk data", Start: p.openBulk, Stop: func() { p.bulk.Close() }},

		{Name: "nats", Start: p.openBus, Stop: func() { p.bus.Close() }},
		{Name: "store", Start: waiting(p.openStore), Stop: func() { p.store.Close() }},
		{Name: "events", Start: p.openEvents, Stop: p.closeEvents},
		{Name: "store keeper", Start: p.keepStore, Stop: func() { p.stopKeeper() }},
		{Name: "members", Start: waiting(p.openMembers), Stop: func() { p.members.Close() }},
		{Name: "secret", Start: waiting(p.openSecret)},
		{Name: "catalogue", Start: waiting(p.followAdapters), Stop: func() { p.adapters.Stop() }},
		{Name: "tiers", Start: p.openTiers, Stop: func() { p.tiers.Close() }},

		{Name: "actor system", Start: p.openSystem, Stop: p.closeSystem},
		{Name: "link", Start: p.openLink, Stop: p.closeLink},
		{Name: "backend", Start: p.composeBackend},
		{Name: "actors", Start: p.startActors, Stop: func() { p.stopActors() }},
		{Name: "membership", Start: p.subscribe, Stop: func() { p.unwatch() }},
		{Name: "desired state", Start: waiting(p.follow), Stop: func() { p.following.Stop() }},
		{Name: "join", Start: waiting(p.join)}, // members leave when they are closed

		{Name: "routes", Start: func(ctx context.Context) error {
			return p.signals.awaitRoutes(ctx, p.cfg.Runtime, p.cfg.Log)
		}},
		{Name: "control service", Start: p.signals.awaitControl},
		{Name: "deployments", Start: func(ctx context.Context) error {
			cfg.Models, cfg.Registry, cfg.Store = p.control.deployments, p.control.adapters, p.store
			return cfg.ApplyDeployments(ctx)
		}},
		{Name: "adapters", Start: func(ctx context.Context) error { return cfg.ApplyAdapters(ctx) }},
		{Name: "requests", Start: func(context.Context) error { p.web.Serve(p.gateway); return nil }},
	}
}
