package dst

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"troupe/cluster/members"
	"troupe/cluster/store"
	"troupe/control/catalogue"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/node/backend"
	"troupe/node/membership"
	"troupe/node/query"
	"troupe/node/steps"
	"troupe/node/stored"
	"troupe/testkit/natskv"
)

// joined has the parts of a node that connect it to the cluster and its store, as in the product.
type joined struct {
	node   *Node
	client *natskv.Client
	ctx    context.Context // ends with the node
	end    context.CancelFunc
	ready  atomic.Bool   // the node has joined, and serves
	ended  chan struct{} // closed when the node has stopped its parts

	store   *store.Store
	keep    func() // stops the job that keeps the stored state
	members *members.Members
	nodes   membership.Nodes
	drained stored.Drained

	plannerPause stored.PlannerPause

	unwatch func()
	synced  sync.Once
	routes  chan struct{}     // closed when the router knows the replicas of the other nodes
	follow  *stored.Followers // watches of drained nodes, pins and canaries

	canaries *residency.Canaries

	catalogue *catalogue.Catalogue
	adapters  *stored.Followers
	prefixes  backend.Prefixes
}

func newJoined(n *Node, server *natskv.Server) *joined {
	j := &joined{node: n, ended: make(chan struct{}), routes: make(chan struct{}),
		client: server.Connect(&nodeRuntime{n.world, n.cfg.Name, n.cfg.Name + " store"})}
	j.nodes = membership.Nodes{Self: n.cfg.Name, Drained: &j.drained, Live: j.live, Departed: j.departed}
	j.catalogue = catalogue.New()
	j.prefixes = backend.Prefixes{
		Pins: &stored.Pins{}, Secret: &stored.Secret{}, Catalogue: j.catalogue, Log: n.cfg.Log,
	}
	j.ctx, j.end = context.WithCancel(context.Background())
	return j
}

// run starts the node, and stops it when its context ends.
func (j *joined) run() {
	defer close(j.ended)
	started, err := steps.Start(j.ctx, j.turns(j.steps()), j.node.cfg.Log)
	if err == nil {
		j.ready.Store(true)
		<-j.ctx.Done()
		started.Stop()
	} else if !j.node.crashed {
		j.node.cfg.Log.Warn().Err(err).Msg("the node did not start")
		j.node.Crash()
		j.node.cfg.Failed()
	}
}

// turns lets each start and stop run in a task of its own. What it leaves behind may go on in the
// task before, and timers that both start at a time would have no order.
func (j *joined) turns(all []steps.Step) []steps.Step {
	for i, s := range all {
		all[i].Start = func(ctx context.Context) error {
			j.node.takeTurn("start " + s.Name)
			return s.Start(ctx)
		}
		if s.Stop != nil {
			all[i].Stop = func() {
				j.node.takeTurn("stop " + s.Name)
				s.Stop()
			}
		}
	}
	return all
}

// steps are those of the product that need the store or actors, in its order.
func (j *joined) steps() []steps.Step {
	n := j.node
	return []steps.Step{
		{Name: "store", Start: j.openStore, Stop: func() { j.store.Close() }},
		{Name: "store keeper", Start: j.keepStore, Stop: func() { j.keep() }},
		{Name: "members", Start: j.openMembers, Stop: func() { j.members.Close() }},
		{Name: "catalogue", Start: j.followAdapters, Stop: func() { j.adapters.Stop() }},
		{Name: "link", Start: func(context.Context) error { return nil }, Stop: j.leave},
		{Name: "actors", Start: func(context.Context) error { return n.startActors() }, Stop: n.stopActors},
		{Name: "membership", Start: j.subscribe, Stop: func() { j.unwatch() }},
		{Name: "desired state", Start: func(ctx context.Context) error {
			j.follow = stored.NewFollowers(n.runtime, n.cfg.Log)
			return j.follow.Follow(ctx, j.drained.Watch(j.store, j.changes().OnDrained), j.prefixes.Pins.Watch(j.store),
				j.plannerPause.Watch(j.store), j.followCanaries())
		}, Stop: func() { j.follow.Stop() }},
		{Name: "join", Start: func(ctx context.Context) error { return j.members.Join(ctx, n.address) }},
		{Name: "routes", Start: j.awaitRoutes},
		{Name: "requests", Start: func(context.Context) error { n.startServing(); return nil }},
	}
}

func (j *joined) openStore(ctx context.Context) (err error) {
	j.store, err = store.Open(ctx, j.client, store.Config{Log: j.node.cfg.Log, Runtime: j.node.runtime})
	return err
}

func (j *joined) keepStore(context.Context) error {
	j.keep = steps.Background(j.node.runtime, func(ctx context.Context) { j.store.Run(ctx, func(string, string) {}) })
	return nil
}

func (j *joined) openMembers(ctx context.Context) (err error) {
	n := j.node
	j.members, err = members.Open(ctx, j.client, members.Config{
		Name: n.cfg.Name, Instance: "disk of " + n.cfg.Name, Log: n.cfg.Log, Runtime: n.runtime,
		Describe: func(m *messages.Member) { m.Gpus = n.gpus.Names() },
		Refused:  func(_ context.Context, address string) bool { return n.network.refuses(n.address, address) },
	})
	return err
}

func (j *joined) followAdapters(ctx context.Context) error {
	j.adapters = stored.NewFollowers(j.node.runtime, j.node.cfg.Log)
	j.adapters.Start(stored.Adapters(j.store, j.catalogue.Apply), func() {})
	err := j.catalogue.Await(ctx, "", "", func(*messages.AdapterSpec) bool { return true })
	if err != nil {
		j.adapters.Stop()
	}
	return err
}

func (j *joined) subscribe(context.Context) error {
	j.unwatch = j.members.Subscribe(j.changes().On)
	return nil
}

// leave ends the node's membership, as the product's link does when it stops.
func (j *joined) leave() {
	if j.node.crashed {
		return
	}
	if err := j.members.Provider().Shutdown(true); err != nil {
		j.node.cfg.Log.Warn().Err(err).Msg("the other nodes will detect that the node has left")
	}
}

// routesTimeout is the maximum wait for the router to learn of the replicas of other nodes.
const routesTimeout = 2 * time.Second

func (j *joined) setRoutesKnown() { j.synced.Do(func() { close(j.routes) }) }

// awaitRoutes waits for the router to learn of the replicas of other nodes.
func (j *joined) awaitRoutes(ctx context.Context) error {
	select {
	case <-j.routes:
	case <-j.node.runtime.After(routesTimeout):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// changes passes changes of the members on, as the product does.
func (j *joined) changes() *membership.Changes {
	n := j.node
	return &membership.Changes{
		Nodes: &j.nodes, Link: linkTo{n}, Bus: unused{}, Audit: unused{}, Publish: silent, Log: n.cfg.Log,
		Send: func(now *messages.MembersChanged) {
			for _, id := range []string{query.Router, query.Deployments, query.Usage} {
				n.system.Root.Send(n.pid(id), now)
			}
		},
	}
}

// live returns the live members as the node knows them.
func (j *joined) live() []*messages.Member {
	if j.members == nil {
		return nil
	}
	return j.members.Live()
}

// departed returns the members that departed recently.
func (j *joined) departed() []members.Departed {
	if j.members == nil {
		return nil
	}
	return j.members.Departed()
}

// control returns the part of the control backend that changes stored deployments.
func (j *joined) control() *backend.DeploymentControl {
	return &backend.DeploymentControl{Store: j.store, System: j.node.system, Publish: silent, Log: j.node.cfg.Log}
}

// linkTo passes the members to the node's side of the network.
type linkTo struct{ node *Node }

// SetMembers implements a part of membership.Changes.
func (l linkTo) SetMembers(addresses []string) { l.node.network.SetMembers(l.node.address, addresses) }

// unused are parts of a node that are not simulated.
type unused struct{}

// SetMembers implements a part of membership.Changes.
func (unused) SetMembers([]*messages.Member) {}

// Members implements a part of membership.Changes.
func (unused) Members([]*messages.Member, []*messages.Member) {}
