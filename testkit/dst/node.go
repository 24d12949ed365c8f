package dst

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replicaset"
	"troupe/actors/model/session"
	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/core/kv"
	"troupe/core/replica"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/messages"
	"troupe/node/gpus"
	"troupe/node/hierarchy"
	"troupe/node/membership"
	"troupe/node/query"
	"troupe/node/tiers"
	"troupe/observe/tree"
	"troupe/testkit/natskv"
)

// NodeConfig describes a node.
type NodeConfig struct {
	Name        string
	Devices     int
	DeviceBytes int64
	DRAMBytes   int64  // size of the KV tier in host memory
	Failed      func() // called when the node could not start, and has ended
	Log         zerolog.Logger

	hostCache    int64 // budget of the cache of weights
	sources      bool  // weights are loaded from other devices and nodes
	restore      kv.RestorePolicy
	tier         *diskStore    // KV tier on a disk, which survives the node
	adapterFiles *adapterFiles // of the node; they survive it

	checks   *checks
	planStep func(n *Node, message any) // called before each message of a planner
}

// Node is a node of a world: the actors of the product, with a simulated device, network and store.
type Node struct {
	cfg     NodeConfig
	world   *World
	network *Network
	*joined
	runtime supervise.Runtime
	system  *actor.ActorSystem
	address string

	dispatcher *Dispatcher
	devices    []*Device
	gpus       *gpus.GPUs
	plane      *plane
	dram       *kvstore.Arena
	faults     *engineFaults
	fence      replicaset.Fence
	root       *actor.PID
	crashed    bool
	tree       *tree.Registry
	serving    serving
	staleTerm  atomic.Uint64 // in which the planner believes that it leads; 0: the lease tells

	mu         sync.Mutex
	actors     map[string]actor.Actor // by id
	crashes    map[string][]bool      // by kind of actor: pending crashes, each after the next message or before it
	phaseCrash *PhaseCrash            // nil: none is due
	jobCrashes map[string][]int       // by kind of actor: pending crashes, each during the nth next job
	late       map[string]*late       // by id of actor
}

// StartNode starts a node.
func StartNode(w *World, n *Network, server *natskv.Server, cfg NodeConfig) *Node {
	w.starts++
	node := &Node{cfg: cfg, world: w, network: n, runtime: w.Runtime(cfg.Name),
		address: fmt.Sprintf(
			"%s:%d",
			cfg.Name,
			w.starts,
		), dispatcher: w.Dispatcher(cfg.Name), crashes: make(map[string][]bool), jobCrashes: make(map[string][]int),
		actors: make(map[string]actor.Actor), late: make(map[string]*late)}
	node.system = actor.NewActorSystem(
		actor.WithDeadLetterThrottleInterval(time.Nanosecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	node.dispatcher.posted, node.dispatcher.flooded = cfg.checks.posted, cfg.checks.flooded
	supervise.SetRuntime(node.system, node.runtime)
	supervise.CountUnknown(node.system, prometheus.NewRegistry(), cfg.Log)
	node.deadLetters()
	node.plane = newPlane(node)
	n.attach(node)
	node.dram = kvstore.NewArena(hostMemory(make([]byte, cfg.DRAMBytes)), kv.CutSlabs(cfg.DRAMBytes).Bytes)
	node.joined = newJoined(node, server)
	cfg.tier.runtime, node.faults = node.runtime, newEngineFaults(node.runtime)
	var open []gpus.GPU
	for i := range cfg.Devices {
		d := NewDevice(fmt.Sprintf("%s-gpu-%d", cfg.Name, i), cfg.DeviceBytes)
		d.checks = cfg.checks
		node.devices = append(node.devices, d)
		open = append(open, gpus.GPU{Device: d, Source: d})
	}
	loader := &Loader{Runtime: node.runtime, StepTime: 25 * time.Millisecond,
		TokenTime: time.Millisecond, LoadTime: 300 * time.Millisecond, Adapters: cfg.adapterFiles,
		faults: node.faults, checks: cfg.checks}
	node.gpus = gpus.New(func(backend.Kind) engine.Loader { return loader }, open...)
	node.gpus.OpenHostCache()
	node.openCanaries()
	node.tree = tree.New(nil)
	node.openServing()
	node.runtime.Go(node.run)
	return node
}

// startActors starts the actors.
func (n *Node) startActors() (err error) {
	n.root, err = n.system.Root.SpawnNamed(n.props(), "node")
	return err
}

// stopActors stops the actors, unless the node has crashed.
func (n *Node) stopActors() {
	if !n.crashed {
		_ = n.system.Root.StopFuture(n.root).Wait() // the node may crash first
	}
}

// Crash ends the node without notice. Its memory is lost.
func (n *Node) Crash() {
	n.crashed = true
	n.cfg.checks.crashed(n.cfg.Name)
	n.network.Detach(n.address)
	n.dispatcher.Kill()
	n.cfg.tier.crash()
	n.abandon()
	n.breakConnections()
}

// abandon ends what still runs outside of the actors of a node that has crashed, each part in a task
// of its own, since the timers that two goroutines start at a time would have no order.
func (n *Node) abandon() {
	n.client.Close()
	n.runtime.Go(func() { close(n.faults.gone) })
	n.runtime.Go(n.end)
}

func (n *Node) pid(id string) *actor.PID { return actor.NewPID(n.address, id) }

// crashing returns the middleware that makes actors of a kind crash.
func (n *Node) crashing(kind string) []actor.ReceiverMiddleware {
	return []actor.ReceiverMiddleware{func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			if kind == "planner" {
				n.cfg.planStep(n, env.Message)
			}
			before, after := n.takeCrash(kind, ctx.Self().GetId(), env.Message)
			n.remember(ctx)
			n.cfg.checks.receives(ctx.Self(), env.Sender, env.Message)
			if before {
				panic("dst: crash before " + fmt.Sprintf("%T", env.Message))
			}
			n.repeatLate(ctx, env.Message, next)
			jobs := n.world.jobs.Load()
			n.keepLate(ctx.Actor(), ctx.Self().GetId(), env)
			n.checkStale(ctx.Actor(), ctx.Self(), env.Message, func() { next(ctx, env) })
			if n.world.jobs.Load() > jobs && n.takeJobCrash(kind) {
				panic("dst: crash in a job of " + fmt.Sprintf("%T", env.Message))
			}
			if after {
				panic("dst: crash after " + fmt.Sprintf("%T", env.Message))
			}
			n.checkEnded(ctx.Actor(), ctx.Self(), env.Message)
		}
	}}
}

// crashNext makes an actor of the given kind panic on its next message, before or after it handles
// the message.
func (n *Node) crashNext(kind string, after bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.crashes[kind] = append(n.crashes[kind], after)
}

func (n *Node) takeCrash(kind, id string, message any) (before, after bool) {
	started := false
	switch message.(type) {
	case *actor.Stopping, *actor.Stopped, *actor.Restarting:
		return false, false
	case *actor.Started:
		started = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.phaseCrash; p != nil && !(started && !p.After) && n.takePhaseCrash(kind, id) {
		return !p.After, p.After
	}
	due := n.crashes[kind]
	if len(due) == 0 || started && !due[0] { // an actor does not crash before its first line of code has run
		return false, false
	}
	n.crashes[kind] = due[1:]
	return !due[0], due[0]
}

// crashInJob makes an actor of the given kind panic after it has handled the nth next message for which
// it starts a job. The job then reports to the next incarnation of the actor.
func (n *Node) crashInJob(kind string, nth int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobCrashes[kind] = append(n.jobCrashes[kind], nth)
}

// takeJobCrash reports whether an actor crashes now that it has started a job.
func (n *Node) takeJobCrash(kind string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := n.jobCrashes[kind]
	if len(due) == 0 {
		return false
	}
	if due[0]--; due[0] > 0 {
		return false
	}
	n.jobCrashes[kind] = due[1:]
	return true
}

// props composes the actors as the node of the product does, without its control service.
func (n *Node) props() *actor.Props {
	base := &hierarchy.Base{Node: n.cfg.Name, System: n.system, Dispatcher: n.dispatcher,
		Registry: n.tree, Middleware: n.crashing, Log: n.cfg.Log}
	below := hierarchy.Tiers{Plane: n.plane, OnCopied: func(string, string, int, kvstore.Move) {},
		Open: &tiers.Tiers{
			Config: tiers.Config{PartBytes: layerBytes, Restore: n.cfg.restore},
			Lower:  []tiers.Lower{{Name: "dram", Store: serialArena{n.dram}}, {Name: "nvme", Store: n.cfg.tier}}},
		MayBeRemote: func() bool { return len(n.live()) > 1 }}
	images := hierarchy.HostCache{Images: n.gpus.Images(), Budget: n.cfg.hostCache, Publish: silent, GPUs: n.gpus,
		AdapterDeleted: n.catalogue.Deleted}
	n.useSources(&images)
	devices := hierarchy.Devices{
		GPUs: n.gpus, KVReserve: func(string) float64 { return 0.3 }, Publish: silent, HostCache: images,
		SelfTest: func(_ context.Context, d cuda.Device) error { return d.(*Device).selfTest() }}
	replicas := hierarchy.Replicas{GPUs: n.gpus, Tiers: below, Fence: &n.fence, Plane: n.plane,
		CheckFolder: func(*messages.ReplicaSpec, string) replica.Folder { return replica.Folder{} },
		Pins:        n.prefixes.Pinned,
		Watch:       stepWatch, Publish: silent,
		HostCache: images}
	router := hierarchy.Router{Members: n.nodes.Current, Sessions: n.serving.calls.Open, Tiers: below,
		Adapters: n.catalogue.Reconcile, Cache: &n.serving.cache, OnSynced: n.setRoutesKnown}
	leases := membership.Leases{Node: n.cfg.Name, Members: n.members}
	deployments := hierarchy.Deployments{HostCache: images, Store: n.store, Leases: leases, Members: n.nodes.Current,
		Inspect: func(_ backend.Kind, path string) (engine.ModelInfo, error) { return InfoOf(path), nil },
		Record:  n.control().RecordDigests, StoreLevel: n.control().StoreLevel, Publish: silent}
	planner := hierarchy.Planner{Leases: n.plannerLeases(), Members: n.nodes.Current, Cache: &n.serving.cache,
		Pause:  n.plannerPause.Get,
		Assign: n.control().AssignAtRevision, Publish: silent, OnPlan: n.cfg.checks.planned}
	usage := hierarchy.UsageProps(base, n.serving.quotas, n.nodes.Current)
	direct := supervise.Props(func() actor.Actor { return &direct{n, base} }, actor.WithSupervisor(base.Strategy()))
	return base.Instrument("node", supervise.Group(supervise.GroupConfig{Strategy: base.Strategy(), Log: n.cfg.Log,
		Children: []supervise.Child{
			{Name: "hostcache", Props: images.Props(base)},
			{Name: "devices", Props: devices.Props(base)},
			{Name: "tiers", Props: below.Props(base)},
			{Name: "replicas", Props: base.Instrument("replicas", replicas.Props(base))},
			{Name: "router", Props: base.Instrument("router", router.Props(base))},
			{Name: "deployments", Props: base.Instrument("deployments", deployments.Props(base))},
			{Name: "planner", Props: base.Instrument("planner", planner.Props(base))},
			{Name: "gateway", Props: base.Instrument("gateway", hierarchy.GatewayProps(base, n.serving.calls))},
			{Name: "usage", Props: base.Instrument("usage", usage)},
			{Name: "direct", Props: base.Instrument("direct", direct)},
		}}))
}

func silent(string, string, string) {}

// stepWatch bounds the steps. Some of the injected hangs are shorter than each bound, and some longer.
var stepWatch = replica.Watch{StepTimeout: 2 * time.Second, HungTimeout: 10 * time.Second, Canary: 5 * time.Second}

// direct supervises the sessions of calls without a gateway.
type direct struct {
	node *Node
	base *hierarchy.Base
}

// Receive starts a session for each call.
func (g *direct) Receive(ctx actor.Context) {
	if call, ok := ctx.Message().(*Call); ok {
		n := g.node
		_, err := ctx.SpawnNamed(g.base.Instrument("session", session.Props(session.Config{
			RequestID: call.ID, Sequence: call.Sequence, Client: call, Router: n.pid(query.Router), Log: n.cfg.Log,
		})), "session-"+call.ID)
		if err != nil {
			panic(err)
		}
	}
}

// open starts a call.
func (n *Node) open(call *Call) { n.system.Root.Send(n.pid("node/direct"), call) }

// command sends a KV command to the replicas of a model on a node.
func (c *cluster) command(n *Node, model string, command proto.Message) {
	for _, r := range c.replicas(model) {
		if r.node == n {
			n.system.Root.Send(r.pid, proto.Clone(command))
		}
	}
}

// migrate asks the first replica of a model on the node, or on any node if it has none, to move all
// its sequences to another one.
func (c *cluster) migrate(n *Node, model string) {
	replicas := c.replicas(model)
	elsewhere := !slices.ContainsFunc(replicas, func(r placed) bool { return r.node == n })
	for _, from := range replicas {
		for _, to := range replicas {
			if (from.node == n || elsewhere) && to.pid.GetId() != from.pid.GetId() {
				n.system.Root.Send(from.pid, &messages.MigrateSequences{
					RequestId: n.runtime.ID(), Target: to.name,
					TargetActor: &messages.ActorRef{Address: to.pid.GetAddress(), Id: to.pid.GetId()}})
				return
			}
		}
	}
}

// placed is a running replica and its node.
type placed struct {
	node *Node
	name string
	pid  *actor.PID
}

// replicas returns the replicas of a model on all nodes.
func (c *cluster) replicas(model string) (all []placed) {
	for _, name := range c.names {
		n := c.nodes[name]
		if n.crashed {
			continue
		}
		for i := range 64 {
			replica := model + "-" + strconv.Itoa(i)
			id := query.Replicas + "/" + replica
			if _, ok := n.system.ProcessRegistry.GetLocal(id); ok {
				all = append(all, placed{n, replica, n.pid(id)})
			}
		}
	}
	return all
}

// Stop stops the node's actors.
func (n *Node) Stop() {
	if !n.crashed {
		n.crashed = true
		n.abandon()
		n.breakConnections()
	}
	if n.root != nil {
		n.system.Root.Stop(n.root)
	}
	n.system.Shutdown()
}
