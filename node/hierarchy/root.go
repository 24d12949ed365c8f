package hierarchy

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/gateway"
	"troupe/messages"
	"troupe/node/query"
)

// Root are the actors of a node.
type Root struct {
	Devices     Devices
	Tiers       Tiers
	Replicas    Replicas
	Router      Router
	Deployments Deployments
	Planner     Planner
	Control     control.Config
	Calls       *gateway.Calls
	Shares      *gateway.Quotas
	Members     func() *messages.MembersChanged
}

// Props returns the props of the root actor.
func (r Root) Props(b *Base) *actor.Props {
	all := []supervise.Child{
		{Name: "hostcache", Props: r.Devices.HostCache.Props(b)},
		{Name: "devices", Props: r.Devices.Props(b)},
		{Name: "replicas", Props: b.Instrument("replicas", r.Replicas.Props(b))},
		{Name: "router", Props: b.Instrument("router", r.Router.Props(b))},
		{Name: "deployments", Props: b.Instrument("deployments", r.Deployments.Props(b))},
		{Name: "planner", Props: b.Instrument("planner", r.Planner.Props(b))},
		{Name: "gateway", Props: b.Instrument("gateway", GatewayProps(b, r.Calls))},
		{Name: "usage", Props: b.Instrument("usage", UsageProps(b, r.Shares, r.Members))},
		{Name: "control", Props: b.Instrument("control", control.Props(r.Control))},
	}
	if !r.Tiers.Empty() {
		all = slices.Insert(all, len(all)-7, supervise.Child{Name: "tiers", Props: r.Tiers.Props(b)})
	}
	return b.group("node", all)
}

// Start starts the actors. The returned function stops them and waits until they have stopped. It
// does not time out: an actor that hangs ends with the process.
func (r Root) Start(b *Base) (stop func(), err error) {
	root, err := b.System.Root.SpawnNamed(r.Props(b), query.Node)
	if err != nil {
		return nil, err
	}
	return func() { _ = b.System.Root.StopFuture(root).Wait() }, nil
}
