package gateway

import (
	"net/http"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/engine"
	"troupe/engine/modelfile"
	"troupe/gateway/apikey"
)

// Config describes a gateway.
type Config struct {
	Directory Directory
	Adapters  Adapters
	// Inspect describes a model's folder.
	Inspect func(path string) (engine.Facts, error)
	// Roots are the folders that models may be read from.
	Roots    modelfile.Roots
	Calls    *Calls
	Root     *actor.RootContext
	Actor    *actor.PID // the gateway actor
	Registry *prometheus.Registry
	// Routes are further pages: path -> handler.
	Routes map[string]http.Handler
	// Keys are asked for over HTTP; nil: everybody is served. Over NATS, the server's own permissions say who may ask what.
	Keys *apikey.Keys
	// MaxInFlight bounds the requests that are served at once; default 4096. One more is answered with 429.
	MaxInFlight int
	Log         zerolog.Logger
}

// Gateway serves the OpenAI API over HTTP and NATS.
type Gateway struct {
	cfg      Config
	models   models
	metrics  *metrics
	mux      *http.ServeMux
	inFlight atomic.Int64
}

// New returns a gateway.
func New(cfg Config) *Gateway {
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = 4096
	}
	g := &Gateway{cfg: cfg, models: models{inspect: cfg.Inspect, roots: cfg.Roots}, metrics: newMetrics(cfg.Registry), mux: http.NewServeMux()}
	g.routes()
	return g
}
