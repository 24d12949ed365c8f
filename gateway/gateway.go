package gateway

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/core/kv"
	"troupe/engine"
	"troupe/gateway/apikey"
	"troupe/internal/audit"
	"troupe/internal/bounded"
	"troupe/internal/recorder"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/digest"
)

// Config configures a Gateway.
type Config struct {
	Directory Directory
	Adapters  Adapters
	// AdapterServed is called when a sequence with an adapter has all its tokens; nil: nothing is called.
	AdapterServed func(*messages.AdapterSpec)
	// Inspect reads the properties of a model from its folder.
	Inspect func(kind backend.Kind, path string) (engine.ModelInfo, error)
	// Image returns the image of a model's files in host memory, which replaces a folder that is gone; nil:
	// there is none.
	Image func(revision string) *engine.Image
	// Roots are the folders that models may be read from.
	Roots    modelfile.Roots
	Digests  *digest.Cache // of the model files; nil: the gateway creates one
	Calls    *Calls
	Root     *actor.RootContext
	Actor    *actor.PID
	Registry *prometheus.Registry
	// Routes are additional GET handlers by path. With Keys set, they require an admin's key.
	Routes map[string]http.Handler
	// Keys are the API keys that HTTP requests must present; nil: every client is served. Over
	// NATS, the server's permissions control access.
	Keys *apikey.Keys
	// Origins lists the origins whose pages may use the API, such as "https://chat.example".
	Origins []string
	// Causes returns why the node is not ready, in addition to the state of the deployments; nil:
	// no further causes.
	Causes func() []Cause
	// Draining reports whether an operator is draining the node; nil: never.
	Draining func() bool
	// BodyBytes bounds the total memory of all request bodies; default 256 MiB.
	BodyBytes int64
	// Salt returns the salt of a tenant's KV blocks, as kv.Salt does with the cluster secret. Nil:
	// the secret is unknown, and requests that need a salt are refused.
	Salt func(tenant, cacheSalt string) ([]byte, error)
	// MaxInFlight bounds the requests in flight; default 4096. Requests beyond it get status 429. So do requests of
	// a client that already holds half of the places not held by other clients.
	MaxInFlight int
	// Quotas counts the usage of clients; nil: the gateway creates one with MaxInFlight.
	Quotas *Quotas
	// TrustedProxies are the proxies whose X-Forwarded-For and Forwarded headers are believed.
	TrustedProxies []netip.Prefix
	// Recorder records sequences; nil: none is recorded.
	Recorder *recorder.Recorder
	// Audit records state changes and unauthorized requests; nil: they are not recorded.
	Audit   *audit.Log
	Log     zerolog.Logger
	Runtime supervise.Runtime // nil: supervise.System
}

// Gateway serves the OpenAI API over HTTP and NATS.
type Gateway struct {
	cfg      Config
	models   modelCache
	metrics  *metrics
	mux      *http.ServeMux
	budget   *memoryBudget
	origin   *http.CrossOriginProtection
	handler  http.Handler // the routes, behind CORS
	keyed    keyedRequests
	refusals *bounded.Limiter // limits log lines about unauthorized requests
	gate     requestGate
}

// New returns a gateway. It panics if one of cfg.Origins is malformed.
func New(cfg Config) *Gateway {
	cfg.Runtime = supervise.OrSystem(cfg.Runtime)
	if cfg.Quotas == nil {
		cfg.Quotas = NewQuotas(cfg.MaxInFlight, cfg.Runtime)
	}
	if cfg.Salt == nil {
		cfg.Salt = func(tenant, cacheSalt string) ([]byte, error) { return kv.Salt(nil, tenant, cacheSalt) }
	}
	if cfg.Digests == nil {
		cfg.Digests = new(digest.Cache)
	}
	cfg.BodyBytes = cmp.Or(cfg.BodyBytes, defaultBodyBytes)
	// Limit the log lines that clients can cause.
	sampled := cfg.Log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second})
	g := &Gateway{
		cfg: cfg,
		models: modelCache{
			inspect: cfg.Inspect, roots: cfg.Roots, digests: cfg.Digests, log: sampled, panics: cfg.Log,
			rt: cfg.Runtime, image: cfg.Image,
		},
		metrics: newMetrics(cfg.Registry), mux: http.NewServeMux(),
		budget:   newMemoryBudget(cfg.BodyBytes, cfg.Runtime),
		refusals: bounded.New(refusalLogRate, refusalLogBurst),
	}
	g.keyed.rt, g.keyed.keys, g.models.loaded = cfg.Runtime, cfg.Keys, g.dropUndeployed
	cfg.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "troupe_gateway_body_bytes", Help: "Memory held by request bodies in bytes.",
	}, func() float64 { return float64(g.budget.reserved.Load()) }))
	if cfg.Keys != nil {
		cfg.Registry.MustRegister(keyCollector{cfg.Keys, cfg.Quotas})
	}
	g.routes()
	var err error
	if g.handler, g.origin, err = corsHandler(cfg.Origins, http.HandlerFunc(g.route)); err != nil {
		panic(err)
	}
	return g
}

func (g *Gateway) reserveMemory() *reservation { return &reservation{budget: g.budget} }

// deployments returns all deployments and drops what is kept for models that are no longer among
// them.
func (g *Gateway) deployments(ctx context.Context) ([]*messages.DeploymentStatus, error) {
	all, err := g.cfg.Directory.Deployments(ctx)
	if err != nil {
		return all, err
	}
	deployed := make(map[string]bool, len(all))
	for _, d := range all {
		deployed[d.GetSpec().GetName()] = true
	}
	g.models.retain(deployed)
	g.metrics.retain(deployed)
	return all, nil
}

// dropTimeout bounds the query for the deployments after a model was loaded.
const dropTimeout = 10 * time.Second

// dropUndeployed drops what is kept for models that are no longer deployed.
func (g *Gateway) dropUndeployed() {
	ctx, cancel := g.cfg.Runtime.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	if _, err := g.deployments(ctx); err != nil {
		g.cfg.Log.Debug().Err(err).Msg("reading deployments after a load failed")
	}
}
