package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"troupe/actors/model/replicaset"
	"troupe/actors/model/router"
	"troupe/actors/supervise"
	"troupe/cluster/backup"
	"troupe/cluster/bulk"
	"troupe/cluster/link"
	"troupe/cluster/members"
	"troupe/cluster/natsd"
	"troupe/cluster/reply"
	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/gateway"
	"troupe/internal/audit"
	"troupe/messages"
	"troupe/modelfile/digest"
	"troupe/observe/tree"
)

// Node is a running node.
type Node struct {
	cfg          Config
	started      time.Time
	system       *actor.ActorSystem
	dispatcher   *supervise.Dispatcher
	registry     *tree.Registry
	calls        *gateway.Calls
	shares       *gateway.Quotas
	gateway      *gateway.Gateway
	metrics      *prometheus.Registry
	fence        *replicaset.Fence
	stored       router.DeploymentCache
	routesKnown  chan struct{} // closed when the router knows the replicas of the other nodes
	informed     chan struct{} // closed when this node may answer for the cluster
	serving      chan struct{} // closed when the control service takes requests
	leaving      chan struct{} // closed when the other nodes take the requests over NATS
	announceOnce sync.Once     // SetLeaving was called

	devices         []GPU
	residency       []*residency.Store
	tiers           []lowerTier  // fastest first
	digests         digest.Cache // of model files
	loader          engine.Loader
	copyMetrics     *copyMetrics
	pins            pinSet
	secret          secret
	nats            *natsd.Server // nil: the node uses the servers of Config.Join
	conn            *nats.Conn
	guard           *reply.Guard
	inboxes         inboxes
	events          *control.Events
	view            *control.View
	storeCopy       *backup.State // desired state in the data folder at the start
	store           *store.Store
	catalogue       *catalogue.Catalogue
	members         *members.Members
	link            *link.Link
	bulk            *bulk.Plane
	audit           *audit.Log
	servers         []*http.Server // the first one serves clients
	clientHandler   lateHandler    // serves clients
	metricsHandler  lateHandler    // serves scrapers
	overloadHandler lateHandler    // serves connections beyond a limit
	address         string

	metricsAddress string // empty: no separate listener

	mu             sync.Mutex
	auditedMembers map[string]bool // live members that have an audit entry
	draining       map[string]bool // nodes that the operator drains
	closers        []func()        // undo the steps of Start, in reverse order

	diskEvents *control.Events // guarded by mu; nil during the start
}

// Start starts a node. If it fails, it has stopped what it started.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	n := &Node{
		cfg: cfg.withDefaults(), started: time.Now(), calls: gateway.NewCalls(),
		shares: gateway.NewQuotas(0, supervise.System), metrics: prometheus.NewRegistry(),
		fence: &replicaset.Fence{}, catalogue: catalogue.New(), draining: make(map[string]bool),
		auditedMembers: make(map[string]bool),
		routesKnown:    make(chan struct{}), informed: make(chan struct{}),
		serving: make(chan struct{}), leaving: make(chan struct{}),
		pins: pinSet{byName: make(map[string]*messages.PinnedPrefix)},
	}
	if n.loader = n.cfg.Loader; n.loader == nil {
		n.loader = llama.Loader{Roots: n.cfg.Roots, Digests: &n.digests}
	}
	n.metrics.MustRegister(goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.copyMetrics = newCopyMetrics(n.metrics)
	n.metrics.MustRegister(kvCollector{n})
	defer func() {
		if err != nil {
			n.teardown()
		}
	}()
	for _, d := range n.cfg.GPUs {
		n.addDevice(d)
	}
	if err := n.openWeb(); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		n.openAudit, n.openDevices, n.openBulk, n.openNATS,
		n.explainWait(n.openStore), n.explainWait(n.openSecret), n.explainWait(n.openCatalogue),
		n.openTiers, n.startActors, n.explainWait(n.join),
		n.awaitRoutes, n.awaitControl, n.applyDeployments, n.applyAdapters, n.serveWeb,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	n.auditNode("node.started")
	return n, nil
}

func (n *Node) openBulk(context.Context) (err error) {
	cfg := bulk.Config{Listen: n.cfg.DataListen, Advertise: n.advertised(n.cfg.DataListen), Log: n.cfg.Log}
	if n.cfg.TLS != nil {
		cfg.ServerTLS, cfg.ClientTLS = n.cfg.TLS.Node(), n.cfg.TLS.ClientOf
	}
	if n.bulk, err = bulk.Listen(cfg); err != nil {
		return fmt.Errorf("bulk data: %w; give another address with --data-listen", err)
	}
	n.closers = append(n.closers, n.bulk.Close)
	return nil
}

func (n *Node) openStore(ctx context.Context) error {
	js, err := jetstream.New(n.conn)
	if err != nil {
		return err
	}
	cfg := store.Config{Folder: n.cfg.DataDir, Copy: n.storeCopy, Log: n.cfg.Log}
	if n.store, err = store.Open(ctx, js, cfg); err != nil {
		return err
	}
	n.closers = append(n.closers, n.store.Close)
	n.events = control.NewEvents(n.conn, n.cfg.Name, supervise.System)
	n.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "troupe_nats_events_dropped_total", Help: "Events not published because too many were queued.",
	}, func() float64 { return float64(n.events.Dropped()) }))
	n.mu.Lock()
	n.diskEvents = n.events
	n.mu.Unlock()
	n.audit.Publish(n.events.Publish)
	n.closers = append(n.closers, n.events.Stop, func() { n.audit.Flush(); n.audit.Publish(nil) })
	life, end := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	n.closers = append(n.closers, func() { end(); kept.Wait() })
	kept.Go(func() { n.store.Run(life, func(kind, detail string) { n.events.Publish(kind, store.Bucket, detail) }) })
	return n.openMembers(ctx, js)
}

// awaitRoutes waits until the router knows the replicas of the other nodes, or for routesTimeout: a
// node may be down or unreachable.
func (n *Node) awaitRoutes(ctx context.Context) error {
	defer close(n.informed)
	select {
	case <-n.routesKnown:
	case <-time.After(routesTimeout):
		n.cfg.Log.Warn().Msg("not all other nodes have reported their replicas; serving commands without them")
	case <-ctx.Done():
		return fmt.Errorf("waiting for the replicas of other nodes: %w", ctx.Err())
	}
	return nil
}

// awaitControl waits until the control service takes requests, so that a client that sees the node
// up can call it.
func (n *Node) awaitControl(ctx context.Context) error {
	select {
	case <-n.serving:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("control service: %w", ctx.Err())
	}
}

func (n *Node) startActors(ctx context.Context) error {
	n.registry = tree.New(n.onTreeEvent)
	n.view = &control.View{Conn: n.conn, Backend: n, Node: n.cfg.Name}
	frames := n.cfg.Log.Level(max(n.cfg.Log.GetLevel(), zerolog.WarnLevel)).
		Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second})
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		// protoactor logs a line for every message to a node that is gone
		return slog.New(zerolog.NewSlogHandler(frames))
	}))
	supervise.CountUnknown(n.system, n.metrics, n.cfg.Log)
	n.dispatcher = supervise.NewDispatcher()
	n.closers = append(n.closers, n.dispatcher.Close, n.system.Shutdown)
	if err := n.startLink(ctx); err != nil {
		return err
	}
	n.gateway = gateway.New(gateway.Config{
		Directory: directory{n}, Adapters: n, Inspect: n.inspect, Roots: n.cfg.Roots, Digests: &n.digests,
		Calls: n.calls, Root: n.system.Root, Actor: n.pid(gatewayID), Registry: n.metrics,
		Routes: map[string]http.Handler{"/tree": tree.Handler(n.view.Tree)},
		Keys:   n.cfg.Keys, Audit: n.audit, Log: n.cfg.Log,
		Origins: n.cfg.WebConfig.Origins, BodyBytes: n.cfg.WebConfig.BodyBytes,
		Salt: n.salt, Causes: n.causes, Draining: n.isDraining,
		Quotas: n.shares, TrustedProxies: n.cfg.TrustedProxies,
	})
	root, err := n.system.Root.SpawnNamed(n.nodeProps(), nodeID)
	if err != nil {
		return err
	}
	// Wait ends with the actor. The end of the process ends an actor that hangs.
	n.closers = append(n.closers, func() { _ = n.system.Root.StopFuture(root).Wait() })
	return nil
}

// onTreeEvent publishes events of actors. It leaves out sessions, unless they fail: they start and
// stop every second.
func (n *Node) onTreeEvent(e tree.Event) {
	if e.Actor != "session" || e.Kind == "actor.failed" {
		n.events.Publish(e.Kind, e.ID, e.Detail)
	}
}

// onFailure records and logs the crash of an actor.
func (n *Node) onFailure(f supervise.Failure) {
	n.registry.RecordFailure(f.ID, f.Reason, f.Message, f.Time)
	n.cfg.Log.Warn().Str("actor", f.ID).Str("reason", fmt.Sprint(f.Reason)).Str("on", fmt.Sprintf("%T", f.Message)).
		Bool("stopped", f.Stopped).Msg("actor crashed")
}

// causes returns why this node is not ready, apart from its deployments: stored state is lost, or
// the store takes no changes.
func (n *Node) causes() []gateway.Cause {
	all := n.storeState().causes()
	if (n.store.Lost() || n.members.BucketLost()) && !slices.Contains(all, gateway.CauseStore) {
		all = append(all, gateway.CauseStore)
	}
	return all
}

// HTTPAddr returns the address of the gateway.
func (n *Node) HTTPAddr() string { return n.address }

// Handler returns the handler of the gateway, for use without a network.
func (n *Node) Handler() http.Handler { return n.gateway }

// NATSURL returns the URL for NATS clients.
func (n *Node) NATSURL() string {
	if n.nats == nil {
		return n.conn.ConnectedUrlRedacted()
	}
	return n.nats.URL()
}

// Member returns this node as the other nodes know it.
func (n *Node) Member() *messages.Member { return n.members.Self() }

// Ready waits until every deployment of the configuration is ready or stopped. It fails as soon as
// one of them has failed.
func (n *Node) Ready(ctx context.Context) error {
	for _, spec := range n.cfg.Deployments {
		for {
			d, err := n.Deployment(ctx, spec.GetName())
			if err == nil && d.GetSpec().Stopped() {
				break
			}
			if err == nil && len(d.GetReplicas()) > 0 &&
				d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY {
				break
			}
			if err == nil && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_FAILED {
				return fmt.Errorf("model %s: %s", spec.GetName(), d.GetDetail())
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("model %s: %w", spec.GetName(), ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}
