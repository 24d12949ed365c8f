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

	"troupe/actors/model/replica"
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
	"troupe/engine/residency"
	"troupe/gateway"
	"troupe/internal/audit"
	"troupe/messages"
	"troupe/modelfile/digest"
	"troupe/observe/tree"
)

// Node is a running node.
type Node struct {
	cfg        Config
	started    time.Time
	system     *actor.ActorSystem
	root       *actor.PID
	dispatcher *supervise.Dispatcher
	registry   *tree.Registry
	calls      *gateway.Calls
	shares     *gateway.Shares
	gateway    *gateway.Gateway
	metrics    *prometheus.Registry
	terms      *replica.Terms
	stored     router.DeploymentCache
	routed     chan struct{} // closed once the router knows what runs on the other nodes
	informed   chan struct{} // closed once this node is to answer for the cluster
	serving    chan struct{} // closed once the control service takes requests
	leaving    chan struct{} // closed once other nodes are to take requests over NATS
	left       sync.Once     // the others were told

	devices   []GPU
	holders   []*residency.Holder
	tiers     []lowerTier  // the fastest first
	digests   digest.Cache // of the files of models
	copies    *copies
	pins      pinned
	secret    secret
	nats      *natsd.Server // nil where the node uses those of others
	conn      *nats.Conn
	guard     *reply.Guard
	inboxes   inboxes
	events    *control.Events
	view      *control.View
	copied    *backup.State // the copy of the desired state in the data folder, as it was at the start
	store     *store.Store
	catalogue *catalogue.Catalogue
	members   *members.Members
	link      *link.Link
	bulk      *bulk.Plane
	audit     *audit.Log
	servers   []*http.Server // the first one is that of clients
	entry     lateHandler    // of clients
	scraped   lateHandler    // of scrapers
	busy      lateHandler    // of connections beyond a limit
	address   string

	metricsAddress string // empty: none

	mu       sync.Mutex
	known    map[string]bool // members that were audited
	draining map[string]bool // nodes to be emptied, by the operator's word
	undo     []func()        // what Stop does, last first

	diskEvents *control.Events // guarded by mu; nil: the node is starting
}

// Start starts a node. When it fails, nothing is left running.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	n := &Node{
		cfg: cfg.withDefaults(), started: time.Now(), calls: gateway.NewCalls(), shares: gateway.NewShares(0), metrics: prometheus.NewRegistry(),
		terms: &replica.Terms{}, catalogue: catalogue.New(), draining: make(map[string]bool), known: make(map[string]bool),
		routed: make(chan struct{}), informed: make(chan struct{}), serving: make(chan struct{}), leaving: make(chan struct{}),
		pins: pinned{byName: make(map[string]*messages.PinnedPrefix)},
	}
	n.metrics.MustRegister(goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.copies = newCopies(n.metrics)
	n.metrics.MustRegister(kvCollector{n})
	defer func() {
		if err != nil {
			n.takeApart()
		}
	}()
	for _, d := range n.cfg.GPUs {
		n.adopt(d)
	}
	if err := n.openWeb(); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		n.openAudit, n.openDevices, n.openBulk, n.openNATS,
		n.explained(n.openStore), n.explained(n.openSecret), n.explained(n.openCatalogue),
		n.openTiers, n.startActors, n.explained(n.join),
		n.awaitRoutes, n.awaitControl, n.applyDeployments, n.applyAdapters, n.serveWeb,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	n.did("node.started")
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
	n.undo = append(n.undo, n.bulk.Close)
	return nil
}

func (n *Node) openStore(ctx context.Context) error {
	js, err := jetstream.New(n.conn)
	if err != nil {
		return err
	}
	if n.store, err = store.Open(ctx, js, store.Config{Folder: n.cfg.DataDir, Copy: n.copied, Log: n.cfg.Log}); err != nil {
		return err
	}
	n.undo = append(n.undo, n.store.Close)
	n.events = control.NewEvents(n.conn, n.cfg.Name)
	n.mu.Lock()
	n.diskEvents = n.events
	n.mu.Unlock()
	n.audit.Publish(n.events.Publish)
	n.undo = append(n.undo, n.events.Stop, func() { n.audit.Flush(); n.audit.Publish(nil) })
	life, end := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	n.undo = append(n.undo, func() { end(); kept.Wait() })
	kept.Go(func() { n.store.Run(life, func(kind, detail string) { n.events.Publish(kind, store.Bucket, detail) }) })
	return n.openMembers(ctx, js)
}

// awaitRoutes waits until this node knows what runs on the others, for a while: one of them may be gone, or cut off.
func (n *Node) awaitRoutes(ctx context.Context) error {
	defer close(n.informed)
	select {
	case <-n.routed:
	case <-time.After(informedWithin):
		n.cfg.Log.Warn().Msg("not all other nodes have said yet what runs there; commands are answered without that")
	case <-ctx.Done():
		return fmt.Errorf("word from the other nodes: %w", ctx.Err())
	}
	return nil
}

// awaitControl waits until the control service takes requests: who is told that the node is up may ask it at once.
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
	frames := n.cfg.Log.Level(max(n.cfg.Log.GetLevel(), zerolog.WarnLevel)).Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second})
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zerolog.NewSlogHandler(frames)) // it repeats itself for every message to a node that is gone
	}))
	n.dispatcher = supervise.NewDispatcher()
	n.undo = append(n.undo, n.dispatcher.Close, n.system.Shutdown)
	if err := n.startLink(ctx); err != nil {
		return err
	}
	n.gateway = gateway.New(gateway.Config{
		Directory: directory{n}, Adapters: n, Inspect: n.inspect, Roots: n.cfg.Roots, Digests: &n.digests, Calls: n.calls,
		Root: n.system.Root, Actor: n.pid(gatewayID), Registry: n.metrics,
		Routes: map[string]http.Handler{"/tree": tree.Handler(n.view.Tree)}, Keys: n.cfg.Keys, Audit: n.audit, Log: n.cfg.Log,
		Origins: n.cfg.WebConfig.Origins, BodyBytes: n.cfg.WebConfig.BodyBytes, Salt: n.salt, Causes: n.causes,
		Draining: n.emptied,
		Shares:   n.shares, TrustedProxies: n.cfg.TrustedProxies,
	})
	root, err := n.system.Root.SpawnNamed(n.nodeProps(), nodeID)
	if err != nil {
		return err
	}
	n.root = root
	n.undo = append(n.undo, func() { _ = n.system.Root.StopFuture(root).Wait() }) // it is stopped, or it hangs and the process ends
	return nil
}

// onTreeEvent publishes what happens to actors, but for sessions, which come and go by the second.
func (n *Node) onTreeEvent(e tree.Event) {
	if e.Actor != "session" || e.Kind == "actor.failed" {
		n.events.Publish(e.Kind, e.ID, e.Detail)
	}
}

// onFailure notes a crash.
func (n *Node) onFailure(f supervise.Failure) {
	n.registry.RecordFailure(f.ID, f.Reason, f.Message, f.Time)
	n.cfg.Log.Warn().Str("actor", f.ID).Str("reason", fmt.Sprint(f.Reason)).Str("on", fmt.Sprintf("%T", f.Message)).
		Bool("stopped", f.Stopped).Msg("actor crashed")
}

// causes returns why this node is not ready, beside the deployments: what is stored is lost, or the store takes no
// changes.
func (n *Node) causes() []gateway.Cause {
	all := n.storeNow().causes()
	if (n.store.Lost() || n.members.BucketLost()) && !slices.Contains(all, gateway.CauseStore) {
		all = append(all, gateway.CauseStore)
	}
	return all
}

// HTTPAddr is where the gateway listens.
func (n *Node) HTTPAddr() string { return n.address }

// Handler serves what HTTPAddr serves, without a network.
func (n *Node) Handler() http.Handler { return n.gateway }

// NATSURL is where NATS clients connect.
func (n *Node) NATSURL() string {
	if n.nats == nil {
		return n.conn.ConnectedUrlRedacted()
	}
	return n.nats.URL()
}

// Member is how the others know this node.
func (n *Node) Member() *messages.Member { return n.members.Self() }

// Registry is the register of the node's actors.
func (n *Node) Registry() *tree.Registry { return n.registry }

// Holders keep the models, by device.
func (n *Node) Holders() []*residency.Holder { return n.holders }

// Ready waits until every deployment of the configuration has a replica that serves or is stopped, or one has failed.
func (n *Node) Ready(ctx context.Context) error {
	for _, spec := range n.cfg.Deployments {
		for {
			d, err := n.Deployment(ctx, spec.GetName())
			if err == nil && d.GetSpec().Stopped() {
				break
			}
			if err == nil && len(d.GetReplicas()) > 0 && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY {
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
