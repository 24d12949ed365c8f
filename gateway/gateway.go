package gateway

import (
	"cmp"
	"net/http"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/core/kv"
	"troupe/engine"
	"troupe/gateway/apikey"
	"troupe/internal/audit"
	"troupe/internal/bounded"
	"troupe/modelfile"
	"troupe/modelfile/digest"
)

// Config describes a gateway.
type Config struct {
	Directory Directory
	Adapters  Adapters
	// Inspect describes a model's folder.
	Inspect func(path string) (engine.ModelInfo, error)
	// Roots are the folders that models may be read from.
	Roots    modelfile.Roots
	Digests  *digest.Cache // of their files; nil: the gateway has its own
	Calls    *Calls
	Root     *actor.RootContext
	Actor    *actor.PID // the gateway actor
	Registry *prometheus.Registry
	// Routes are further pages: path -> handler.
	Routes map[string]http.Handler // for admins, where there are keys
	// Keys are asked for over HTTP; nil: everybody is served. Over NATS, the server's own permissions say who may ask what.
	Keys *apikey.Keys
	// Origins are those whose pages may use the API: "https://chat.example".
	Origins []string
	// Causes says why the node is not ready, beside what the Directory tells; nil: nothing.
	Causes func() []Cause
	// Draining reports whether the operator has the node emptied; nil: never.
	Draining func() bool
	// BodyBytes bounds the memory of the bodies of all requests together; default 256 MiB.
	BodyBytes int64
	// Salt returns the salt of a tenant's KV blocks, as kv.Salt does with the cluster secret; nil: the secret is not known, and
	// requests that need a salt are refused.
	Salt func(tenant, cacheSalt string) ([]byte, error)
	// MaxInFlight bounds the requests that are served at once; default 4096. One more is answered with 429, and so is a
	// client that holds half of what others leave.
	MaxInFlight int
	// Shares counts what clients use; nil: the gateway has its own, with MaxInFlight.
	Shares *Shares
	// TrustedProxies may say for whom they ask, in X-Forwarded-For or Forwarded.
	TrustedProxies []netip.Prefix
	// Audit takes changes of state, and requests that were not allowed; nil: they are not recorded.
	Audit *audit.Log
	Log   zerolog.Logger
}

// Gateway serves the OpenAI API over HTTP and NATS.
type Gateway struct {
	cfg      Config
	models   models
	metrics  *metrics
	mux      *http.ServeMux
	budget   *budget
	origin   *http.CrossOriginProtection
	entry    http.Handler // the routes, behind what pages of other origins need
	keyUses  keyUses
	refusals *bounded.Limiter // of lines in the log
	door     door
}

// New returns a gateway. Origins that are not well-formed are a mistake of the caller.
func New(cfg Config) *Gateway {
	if cfg.Shares == nil {
		cfg.Shares = NewShares(cfg.MaxInFlight)
	}
	if cfg.Salt == nil {
		cfg.Salt = func(tenant, cacheSalt string) ([]byte, error) { return kv.Salt(nil, tenant, cacheSalt) }
	}
	if cfg.Digests == nil {
		cfg.Digests = new(digest.Cache)
	}
	cfg.BodyBytes = cmp.Or(cfg.BodyBytes, defaultBodyBytes)
	seldom := cfg.Log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second}) // of what clients cause
	g := &Gateway{
		cfg: cfg, models: models{inspect: cfg.Inspect, roots: cfg.Roots, digests: cfg.Digests, log: seldom},
		metrics: newMetrics(cfg.Registry), mux: http.NewServeMux(), budget: newBudget(cfg.BodyBytes),
		refusals: bounded.New(refusalsLogged, refusalsAtOnce),
	}
	g.keyUses.keys = cfg.Keys
	cfg.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "troupe_gateway_body_bytes", Help: "Memory that the bodies of requests hold.",
	}, func() float64 { return float64(g.budget.held.Load()) }))
	if cfg.Keys != nil {
		cfg.Registry.MustRegister(keyCollector{cfg.Keys, cfg.Shares})
	}
	g.routes()
	var err error
	if g.entry, g.origin, err = origins(cfg.Origins, http.HandlerFunc(g.route)); err != nil {
		panic(err)
	}
	return g
}

func (g *Gateway) hold() *hold { return &hold{of: g.budget} }
