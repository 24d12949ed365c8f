package control

import (
	"context"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/reply"
	"troupe/cluster/service"
	"troupe/internal/audit"
	"troupe/internal/recorder"
)

// Endpoint is an additional subject that the service answers.
type Endpoint struct {
	Name, Subject, Description string
	Handler                    Handler
}

// Config is fixed for the life of the actor. All its incarnations share it.
type Config struct {
	Conn    *nats.Conn
	Backend Backend
	Version string // a semantic version, as NATS requires
	Node    string
	Extra   []Endpoint
	// Guard decides which reply subjects are answered. If nil, only those that need no
	// configuration are.
	Guard *reply.Guard
	// TrustAccounts is passed to service.Config.
	TrustAccounts bool
	Timeout       time.Duration // of a request; the default is 5 s
	// Synced is closed once the backend knows the state of the cluster. Until then the service
	// answers only requests about this node; other nodes answer the rest. Nil means synced from the
	// start.
	Synced <-chan struct{}
	// Leaving is closed when the node starts to leave. From then on the service answers only
	// requests about this node, as before Synced. If nil, the node never leaves.
	Leaving <-chan struct{}
	// OnServing is called each time the service starts to answer all requests; it may be nil.
	OnServing func()
	Audit     *audit.Log // records requests that change something; nil disables it
	// Recorder has what this node records, and OpenCalls returns the number of open calls of its gateway. If
	// Recorder is nil, recordings are refused.
	Recorder  *recorder.Recorder
	OpenCalls func() int
	Log       zerolog.Logger
	Runtime   supervise.Runtime // nil: supervise.System
}

// Props returns the props of the control actor.
func Props(cfg Config) *actor.Props {
	cfg.Runtime = supervise.OrSystem(cfg.Runtime)
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Guard == nil {
		cfg.Guard = reply.NewGuard(reply.Rule{}, nil, cfg.Log)
	}
	if cfg.OnServing == nil {
		cfg.OnServing = func() {}
	}
	if cfg.Synced == nil {
		informed := make(chan struct{})
		close(informed)
		cfg.Synced = informed
	}
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &control{
			Config:      cfg,
			incarnation: incarnation,
			view:        &View{Conn: cfg.Conn, Backend: cfg.Backend, Node: cfg.Node, Runtime: cfg.Runtime},
		}
	})
}

type control struct {
	Config
	incarnation uint64
	view        *View
	service     *service.Service
	deferred    []Endpoint // endpoints to add once the node is synced
	leaving     bool
	cancel      context.CancelFunc
}

// synced reports that Config.Synced was closed.
type synced struct{ incarnation uint64 }

// leaving reports that Config.Leaving was closed.
type leaving struct{ incarnation uint64 }

func (c *control) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.onStarted(ctx)
	case *synced:
		c.onSynced(msg)
	case *leaving:
		c.onLeaving(msg)
	case *actor.Restarting, *actor.Stopping:
		c.onStopping()
	default:
		supervise.Unknown(ctx, "control")
	}
}

func (c *control) onStarted(ctx actor.Context) {
	var life context.Context
	life, c.cancel = context.WithCancel(context.Background())
	started, err := service.Start(c.Conn, service.Config{
		Name: "troupe", Version: c.Version,
		Description: "Troupe: many language models on one pool of GPUs; node " + c.Node,
		Metadata:    map[string]string{"node": c.Node},
		Guard:       c.Guard, TrustAccounts: c.TrustAccounts, Log: c.Log, Runtime: c.Runtime,
	})
	if err != nil {
		panic(err)
	}
	c.service = started
	for _, e := range c.endpoints(life) {
		if strings.HasPrefix(e.Subject, nodeSubject) {
			c.add(e)
		} else {
			c.deferred = append(c.deferred, e)
		}
	}
	incarnation := c.incarnation
	supervise.Job(ctx, life, waitClosed(c.Synced), func(struct{}, error) any { return &synced{incarnation} })
	if c.Leaving != nil {
		supervise.Job(ctx, life, waitClosed(c.Leaving), func(struct{}, error) any { return &leaving{incarnation} })
	}
}

func (c *control) add(e Endpoint) {
	if err := c.service.Add(e.Name, e.Subject, e.Description, e.Handler); err != nil {
		panic(err)
	}
}

// waitClosed returns a job that ends when a channel is closed.
func waitClosed(closed <-chan struct{}) func(context.Context) (struct{}, error) {
	return func(ctx context.Context) (none struct{}, err error) {
		select {
		case <-closed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		return none, err
	}
}

// onSynced adds the endpoints that concern the whole cluster.
func (c *control) onSynced(msg *synced) {
	if msg.incarnation != c.incarnation {
		return
	}
	if !c.leaving {
		for _, e := range c.deferred {
			c.add(e)
		}
	}
	c.deferred = nil
	if err := c.Conn.FlushTimeout(c.Timeout); err != nil {
		c.Log.Warn().Err(err).Msg("NATS disconnected; the control service starts when it is back")
	}
	c.OnServing()
}

// onLeaving stops answering requests that other nodes can answer.
func (c *control) onLeaving(msg *leaving) {
	if msg.incarnation != c.incarnation {
		return
	}
	c.leaving = true
	err := c.service.Withdraw(func(subject string) bool { return !strings.HasPrefix(subject, nodeSubject) })
	if err != nil {
		c.Log.Warn().Err(err).Msg("withdraw control service failed; this node still answers all requests")
	}
}

func (c *control) onStopping() {
	c.cancel()
	if c.service != nil {
		if err := c.service.Stop(); err != nil {
			c.Log.Warn().Err(err).Msg("stop control service failed")
		}
	}
}

// Handler answers a request. See service.Handler.
type Handler = service.Handler

// async returns a handler that runs the given one in a new goroutine.
func (c *control) async(handler Handler) Handler {
	return func(r *service.Request) { c.Runtime.Go(func() { handler(r) }) }
}
