package gateway

import (
	"net/http"
	"net/netip"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/engine"
	"troupe/gateway/apikey"
)

// Config describes a gateway.
type Config struct {
	Directory Directory
	Adapters  Adapters
	// Inspect describes a model's folder.
	Inspect  func(path string) (engine.Facts, error)
	Calls    *Calls
	Root     *actor.RootContext
	Actor    *actor.PID // the gateway actor
	Registry *prometheus.Registry
	// Routes are further pages: path -> handler.
	Routes map[string]http.Handler
	// Keys are asked for over HTTP; nil: everybody is served. Over NATS, the server's own permissions say who may ask what.
	Keys *apikey.Keys
	// MaxInFlight bounds the requests that are served at once; default 4096. One more is answered with 429, and so is a
	// client that holds half of what others leave.
	MaxInFlight int
	// Shares counts what clients use; nil: the gateway has its own, with MaxInFlight.
	Shares *Shares
	// TrustedProxies may say for whom they ask, in X-Forwarded-For or Forwarded.
	TrustedProxies []netip.Prefix
	Log            zerolog.Logger
}

// Gateway serves the OpenAI API over HTTP and NATS.
type Gateway struct {
	cfg     Config
	models  models
	metrics *metrics
	mux     *http.ServeMux
}

// New returns a gateway.
func New(cfg Config) *Gateway {
	if cfg.Shares == nil {
		cfg.Shares = NewShares(cfg.MaxInFlight)
	}
	g := &Gateway{cfg: cfg, models: models{inspect: cfg.Inspect}, metrics: newMetrics(cfg.Registry), mux: http.NewServeMux()}
	if cfg.Keys != nil {
		cfg.Registry.MustRegister(keyCollector{cfg.Keys, cfg.Shares})
	}
	g.routes()
	return g
}
