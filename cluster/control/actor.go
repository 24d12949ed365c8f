package control

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
)

// Endpoint is one more subject of the service.
type Endpoint struct {
	Name, Subject, Description string
	Handler                    Handler
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Conn    *nats.Conn
	Backend Backend
	Version string // semantic, as NATS asks for
	Node    string
	Extra   []Endpoint
	Timeout time.Duration // of a request; default 5 s
	// Serving is called each time the service has begun to take requests. Nil: nobody waits for that.
	Serving func()
	Log     zerolog.Logger
}

// Props returns the recipe for the control actor.
func Props(cfg Config) *actor.Props {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Serving == nil {
		cfg.Serving = func() {}
	}
	return supervise.Props(func() actor.Actor {
		return &control{Config: cfg, view: &View{Conn: cfg.Conn, Backend: cfg.Backend, Node: cfg.Node}}
	})
}

type control struct {
	Config
	view    *View
	service micro.Service
	end     context.CancelFunc
}

func (c *control) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		c.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		c.onEnding()
	}
}

func (c *control) onStarted(ctx actor.Context) {
	var life context.Context
	life, c.end = context.WithCancel(context.Background())
	service, err := micro.AddService(c.Conn, micro.Config{
		Name: "troupe", Version: c.Version, Description: "Troupe: many language models on one pool of GPUs; node " + c.Node,
		Metadata: map[string]string{"node": c.Node},
	})
	if err != nil {
		panic(err)
	}
	c.service = service
	for _, e := range c.endpoints(life) {
		if err := service.AddEndpoint(e.Name, micro.HandlerFunc(e.Handler), micro.WithEndpointSubject(e.Subject),
			micro.WithEndpointMetadata(map[string]string{"description": e.Description})); err != nil {
			panic(err)
		}
	}
	if err := c.Conn.FlushTimeout(c.Timeout); err != nil {
		c.Log.Warn().Err(err).Msg("NATS is away; the control service begins when it is back")
	}
	c.Serving()
}

func (c *control) onEnding() {
	c.end()
	if c.service != nil {
		if err := c.service.Stop(); err != nil {
			c.Log.Warn().Err(err).Msg("control service not stopped cleanly")
		}
	}
}

// Handler answers a request. It must not block: NATS calls handlers one after the other.
type Handler func(micro.Request)

// guarded runs a handler in a goroutine of its own.
func guarded(handler Handler) Handler {
	return func(r micro.Request) { go handler(r) }
}
