package dst

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/gpu"
	"troupe/actors/kvblock"
	"troupe/actors/model/deployment"
	"troupe/actors/model/replica"
	"troupe/actors/model/replica/copier"
	"troupe/actors/model/replicaset"
	"troupe/actors/model/router"
	"troupe/actors/model/session"
	"troupe/actors/model/stepper"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/engine/residency"
	"troupe/messages"
)

// NodeConfig describes a node.
type NodeConfig struct {
	Name        string
	Devices     int
	DeviceBytes int64
	DRAMBytes   int64          // size of the KV tier in host memory
	Disk        *kvstore.Arena // KV tier on disk; it survives the node
	Log         zerolog.Logger
}

// Node is a node of a world: the actors of the product, with a simulated device, network and store.
type Node struct {
	cfg     NodeConfig
	world   *World
	network *Network
	client  *client
	runtime supervise.Runtime
	system  *actor.ActorSystem
	address string

	dispatcher *Dispatcher
	devices    []*Device
	residency  []*residency.Store
	plane      *plane
	dram       *kvstore.Arena
	fence      replicaset.Fence
	root       *actor.PID
	crashed    bool
	known      []*messages.Member // live members, as last sent to the actors

	mu      sync.Mutex
	crashes map[string][]bool // by kind of actor: pending crashes, each after the next message or before it
}

const (
	devicesID     = "node/devices"
	replicasID    = "node/replicas"
	deploymentsID = "node/deployments"
	routerID      = "node/router"
	tiersID       = "node/tiers"
)

// StartNode starts a node.
func StartNode(w *World, n *Network, r *Registry, cfg NodeConfig) *Node {
	w.starts++
	node := &Node{cfg: cfg, world: w, network: n, runtime: w.Runtime(cfg.Name),
		address: fmt.Sprintf(
			"%s:%d",
			cfg.Name,
			w.starts,
		), dispatcher: w.Dispatcher(cfg.Name), crashes: make(map[string][]bool)}
	node.system = actor.NewActorSystem(
		actor.WithDeadLetterThrottleInterval(time.Nanosecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	supervise.SetRuntime(node.system, node.runtime)
	node.plane = newPlane(node)
	n.attach(node)
	var gpus []string
	node.dram = kvstore.NewArena(hostMemory(make([]byte, cfg.DRAMBytes)), kv.CutSlabs(cfg.DRAMBytes).Bytes)
	for i := range cfg.Devices {
		d := NewDevice(fmt.Sprintf("%s-gpu-%d", cfg.Name, i), cfg.DeviceBytes)
		node.devices = append(node.devices, d)
		node.residency = append(node.residency, residency.NewStore(d, &Loader{Runtime: node.runtime,
			StepTime: 5 * time.Millisecond, TokenTime: 100 * time.Microsecond, LoadTime: 300 * time.Millisecond}))
		gpus = append(gpus, gpuName(i))
	}
	node.client = &client{
		registry: r,
		now:      node.runtime.Now,
		gone:     make(chan struct{}),
		leases:   make(map[string]lease),
		self: &messages.Member{Name: cfg.Name, Address: node.address, Gpus: gpus,
			State: messages.MemberState_MEMBER_STATE_UP},
	}
	node.renew()
	var err error
	if node.root, err = node.system.Root.SpawnNamed(node.nodeProps(), "node"); err != nil {
		panic(err)
	}
	node.keepRenewing()
	return node
}

func gpuName(i int) string { return "gpu-" + strconv.Itoa(i) }

// Crash ends the node without notice. Its memory is lost.
func (n *Node) Crash() {
	n.crashed = true
	n.client.setDown(true)
	close(n.client.gone)
	n.network.Detach(n.address)
	n.dispatcher.Kill()
}

// renew renews the node's membership and notifies its actors of changes.
func (n *Node) renew() {
	if err := n.client.renew(); err != nil {
		return
	}
	before, now := n.known, n.client.live()
	n.known = now
	var addresses []string
	for _, m := range now {
		addresses = append(addresses, m.GetAddress())
	}
	same := slices.EqualFunc(before, now, func(a, b *messages.Member) bool { return a.GetId() == b.GetId() })
	if same {
		return
	}
	n.network.SetMembers(n.address, addresses)
	changed := &messages.MembersChanged{Members: now}
	for _, m := range before {
		if !slices.ContainsFunc(now, func(l *messages.Member) bool { return l.GetId() == m.GetId() }) {
			changed.Left = append(changed.Left, m)
		}
	}
	for _, id := range []string{routerID, deploymentsID} {
		n.system.Root.Send(n.pid(id), changed)
	}
}

func (n *Node) keepRenewing() {
	n.runtime.AfterFunc(renewEvery, func() {
		if n.crashed {
			return
		}
		n.renew()
		n.keepRenewing()
	})
}

func (n *Node) pid(id string) *actor.PID { return actor.NewPID(n.address, id) }

func (n *Node) strategy() actor.SupervisorStrategy { return supervise.Strategy(nil) }

// instrument adds the dispatcher, and the pending crashes of a kind of actor, to props.
func (n *Node) instrument(kind string, props *actor.Props) *actor.Props {
	return props.Configure(actor.WithDispatcher(n.dispatcher), actor.WithReceiverMiddleware(
		func(next actor.ReceiverFunc) actor.ReceiverFunc {
			return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
				before, after := n.takeCrash(kind, env.Message)
				if before {
					panic("dst: crash before " + fmt.Sprintf("%T", env.Message))
				}
				next(ctx, env)
				if after {
					panic("dst: crash after " + fmt.Sprintf("%T", env.Message))
				}
			}
		}))
}

// crashNext makes an actor of the given kind panic on its next message, before or after it handles
// the message.
func (n *Node) crashNext(kind string, after bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.crashes[kind] = append(n.crashes[kind], after)
}

func (n *Node) takeCrash(kind string, message any) (before, after bool) {
	started := false
	switch message.(type) {
	case *actor.Stopping, *actor.Stopped, *actor.Restarting:
		return false, false
	case *actor.Started:
		started = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	due := n.crashes[kind]
	if len(due) == 0 || started && !due[0] { // an actor does not crash before its first line of code has run
		return false, false
	}
	n.crashes[kind] = due[1:]
	return !due[0], due[0]
}

func (n *Node) members() *messages.MembersChanged {
	return &messages.MembersChanged{Members: n.client.live()}
}

func (n *Node) nodeProps() *actor.Props {
	return n.instrument("node", supervise.Group(supervise.GroupConfig{Strategy: n.strategy(), Log: n.cfg.Log,
		Children: []supervise.Child{
			{Name: "devices", Props: n.instrument("group", n.devicesProps())},
			{Name: "tiers", Props: n.instrument("group", n.tiersProps())},
			{Name: "replicas", Props: n.instrument("replicas", n.replicasProps())},
			{Name: "router", Props: n.instrument("router", n.routerProps())},
			{Name: "gateway", Props: n.instrument("gateway", supervise.Props(
				func() actor.Actor { return &gateway{n} }, actor.WithSupervisor(n.strategy())))},
			{Name: "deployments", Props: n.instrument("deployments", n.deploymentsProps())},
		}}))
}

func (n *Node) devicesProps() *actor.Props {
	var children []supervise.Child
	for i, d := range n.devices {
		name := gpuName(i)
		children = append(children, supervise.Child{Name: name, Props: n.instrument("gpu", gpu.Props(gpu.Config{
			Name: name, Node: n.cfg.Name, Info: d.Info(), Models: n.residency[i],
			HBM: n.instrument("hbm", kvblock.Props(kvblock.Config{Device: name})), KVReserve: 0.3,
			Publish: func(string, string, string) {}, SelfTest: func(context.Context) error { return d.selfTest() },
			Health: d, Strategy: n.strategy(), Log: n.cfg.Log,
		}))})
	}
	return supervise.Group(supervise.GroupConfig{Children: children, Strategy: n.strategy(), Log: n.cfg.Log})
}

func (n *Node) tiersProps() *actor.Props {
	var children []supervise.Child
	for _, t := range n.tiers().Lower {
		cfg := kvblock.TierConfig{
			Name:      t.Name,
			Store:     t.Store,
			Log:       n.cfg.Log,
			Router:    n.pid(routerID),
			DataPlane: n.plane,
		}
		if t.Name == "dram" {
			cfg.Limits.IdleSteps = 20
			cfg.Below = &kvblock.Lower{Name: "nvme", Tier: n.pid(tiersID + "/nvme"), Store: n.cfg.Disk}
		}
		children = append(
			children,
			supervise.Child{Name: t.Name, Props: n.instrument("tier", kvblock.TierProps(cfg))},
		)
	}
	children = append(children, supervise.Child{Name: kvblock.RemoteName, Props: n.instrument("tier",
		kvblock.RemoteProps(kvblock.RemoteConfig{Router: n.pid(routerID), Log: n.cfg.Log}))})
	return supervise.Group(supervise.GroupConfig{Children: children, Strategy: n.strategy(), Log: n.cfg.Log})
}

// tiers returns the configuration of the tiers for replicas.
func (n *Node) tiers() replica.Tiers {
	t := replica.Tiers{Remote: n.pid(tiersID + "/" + kvblock.RemoteName),
		RemoteAvailable: func() bool { return len(n.client.live()) > 1 }}
	t.IdleSteps, t.PartBytes = 20, layerBytes
	t.Lower = []replica.Tier{{Name: "dram", Actor: n.pid(tiersID + "/dram"), Store: n.dram},
		{Name: "nvme", Actor: n.pid(tiersID + "/nvme"), Store: n.cfg.Disk}}
	return t
}

func (n *Node) tierPIDs() []*actor.PID {
	return []*actor.PID{n.pid(tiersID + "/dram"), n.pid(tiersID + "/nvme")}
}

func (n *Node) gpuNames() (all []string) {
	for i := range n.devices {
		all = append(all, gpuName(i))
	}
	return all
}

func (n *Node) residencyOf(name string) (*residency.Store, error) {
	for i, r := range n.residency {
		if gpuName(i) == name {
			return r, nil
		}
	}
	return nil, errors.New("no " + name)
}

func (n *Node) replicasProps() *actor.Props {
	return replicaset.Props(replicaset.Config{Node: n.cfg.Name, Fence: &n.fence, Strategy: n.strategy(),
		GPUs: n.gpuNames(), Log: n.cfg.Log,
		GPU: func(name string) *actor.PID { return n.pid(devicesID + "/" + name) },
		Replica: func(spec *messages.ReplicaSpec, deployment *actor.PID) *actor.Props {
			device := devicesID + "/" + spec.GetGpu()
			return n.instrument("replica", replica.Props(replica.Config{
				Spec: spec, GPU: n.pid(device), HBM: n.pid(device + "/hbm"), Deployment: deployment,
				Router: n.pid(routerID), Strategy: n.strategy(), Log: n.cfg.Log,
				Bulk: n.plane, Tiers: n.tiers(),
				Engine: func(lease string, gate func(uint64) (engine.Gate, error)) *actor.Props {
					return n.instrument("engine", stepper.Props(stepper.Config{
						GPU: n.pid(device), Lease: lease, Gate: gate,
						Open: func() (engine.Engine, error) {
							r, err := n.residencyOf(spec.GetGpu())
							if err != nil {
								return nil, err
							}
							return r.Open(lease)
						}}))
				},
				OpenBlocks: func(lease string) (replica.Blocks, error) { return n.blocks(spec.GetGpu(), lease) },
				Copier:     func(of replica.CopierSpec) *actor.Props { return n.copierProps(spec.GetGpu(), of) },
			}))
		}})
}

func (n *Node) copierProps(gpu string, of replica.CopierSpec) *actor.Props {
	all := n.tiers()
	cfg := copier.Config{Incarnation: of.Incarnation, Remote: all.Remote, Bulk: n.plane, Gate: of.Gate,
		OpenBlocks: func() (copier.Blocks, error) { return n.blocks(gpu, of.Lease) }}
	for _, t := range all.Lower {
		cfg.Tiers = append(cfg.Tiers, copier.Tier{Name: t.Name, Actor: t.Actor, Store: t.Store})
	}
	return n.instrument("copier", copier.Props(cfg))
}

// blocks opens the KV blocks of a lease.
func (n *Node) blocks(gpu, lease string) (replica.Blocks, error) {
	r, err := n.residencyOf(gpu)
	if err != nil {
		return nil, err
	}
	return r.OpenBlocks(lease)
}

func (n *Node) routerProps() *actor.Props {
	return router.Props(router.Config{
		Node: n.cfg.Name, Members: n.members,
		Peer:     func(m *messages.Member) *actor.PID { return actor.NewPID(m.GetAddress(), routerID) },
		Replicas: n.pid(replicasID), Deployments: n.pid(deploymentsID), Sessions: func() int { return 0 },
		Tiers: n.tierPIDs(),
	})
}

func (n *Node) deploymentsProps() *actor.Props {
	return deployment.GroupProps(deployment.GroupConfig{
		Node: n.cfg.Name, Store: n.client, Leases: n.client, Members: n.members, Router: n.pid(routerID),
		Strategy: n.strategy(), Log: n.cfg.Log,
		Deployment: func(name string, term uint64) *actor.Props {
			return n.instrument("deployment", deployment.Props(deployment.Config{
				Name: name, Node: n.cfg.Name, Term: term, Members: n.members, Router: n.pid(routerID),
				Replicas: func(m *messages.Member) *actor.PID { return actor.NewPID(m.GetAddress(), replicasID) },
				GPU: func(m *messages.Member, name string) *actor.PID {
					return actor.NewPID(m.GetAddress(), devicesID+"/"+name)
				},
				Inspect: func(path string) (engine.ModelInfo, error) { return InfoOf(path), nil },
				Record:  n.client.record, Publish: func(string, string, string) {}, Log: n.cfg.Log,
			}))
		}})
}

// gateway supervises the sessions of the node's calls, as the gateway actor of the product does.
type gateway struct{ node *Node }

// Receive starts a session for each call.
func (g *gateway) Receive(ctx actor.Context) {
	if call, ok := ctx.Message().(*Call); ok {
		n := g.node
		_, err := ctx.SpawnNamed(n.instrument("session", session.Props(session.Config{
			RequestID: call.ID, Sequence: call.Sequence, Client: call, Router: n.pid(routerID), Log: n.cfg.Log,
		})), "session-"+call.ID)
		if err != nil {
			panic(err)
		}
	}
}

// open starts a call.
func (n *Node) open(call *Call) { n.system.Root.Send(n.pid("node/gateway"), call) }

// command sends a KV command to the replicas of a model on a node.
func (c *cluster) command(n *Node, model string, command proto.Message) {
	for _, r := range c.replicas(model) {
		if r.node == n {
			n.system.Root.Send(r.pid, proto.Clone(command))
		}
	}
}

// migrate asks the first replica of a model on the node to move all its sequences to another one.
func (c *cluster) migrate(n *Node, model string) {
	replicas := c.replicas(model)
	for _, from := range replicas {
		for _, to := range replicas {
			if from.node == n && to.pid.GetId() != from.pid.GetId() {
				n.system.Root.Send(actor.NewPID(n.address, from.pid.GetId()), &messages.MigrateSequences{
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
			id := fmt.Sprintf("%s/%s-%d", replicasID, model, i)
			if _, ok := n.system.ProcessRegistry.GetLocal(id); ok {
				all = append(all, placed{n, fmt.Sprintf("%s-%d", model, i), n.pid(id)})
			}
		}
	}
	return all
}

// Stop stops the node's actors.
func (n *Node) Stop() {
	n.crashed = true
	n.system.Root.Stop(n.root)
	n.system.Shutdown()
}
