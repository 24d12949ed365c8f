package node

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/security"
	"troupe/core/cost"
	"troupe/core/hbm"
	"troupe/core/kv"
	"troupe/core/replica"
	"troupe/core/schedule"
	"troupe/cuda/host"
	"troupe/cuda/simulated"
	"troupe/engine"
	"troupe/gateway/apikey"
	"troupe/gateway/web"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/node/gpus"
	"troupe/node/tiers"
)

// Config configures a node. Start does not validate it; cmd/node does.
type Config struct {
	Name     string // name of the node
	Instance string // identifies the data folder and so survives restarts; default: random
	DataDir  string

	HTTP         string       // address of the API, "127.0.0.1:8000"; port 0 selects a free port
	HTTPListener net.Listener // listener for HTTP; nil: Start opens it
	HTTPTLS      *tls.Config  // nil: plain HTTP
	Keys         *apikey.Keys // nil: requests need no key
	WebConfig

	GPUs    []GPU         // open devices; Start takes ownership and closes them, even if it fails
	Devices []host.Config // software GPUs, which are numbered after GPUs
	// SimulatedDevices are numbered after Devices. One of the other devices must be there too.
	SimulatedDevices []simulated.Config
	// Profiles are the costs of models on kinds of devices, as troupe calibrate measured them.
	Profiles []cost.Profile
	Tiers    TiersConfig
	// KVReserve is the share of a GPU's memory that is reserved for KV blocks, by the GPU's name
	// ("gpu-0"). The name "" applies to all GPUs without an entry; default hbm.DefaultKVReserve.
	KVReserve map[string]float64
	// Watch bounds the steps of replicas, and sets the interval of canaries; nil: replica.DefaultWatch.
	Watch *replica.Watch
	// Roots are the folders that models and adapters may be read from.
	Roots modelfile.Roots
	// TrustedProxies are networks of proxies whose X-Forwarded-For and Forwarded headers name the
	// client.
	TrustedProxies []netip.Prefix
	// WeightsHostBytes is the budget of the node's cache of weights and adapters in page-locked host
	// memory; 0: no cache.
	WeightsHostBytes int64
	// WeightsDiskBytes is the budget of the images of weights in the folder WeightsDiskPath; 0: none.
	// They are written from the cache in host memory, which must be there.
	WeightsDiskBytes int64
	WeightsDiskPath  string
	// DrainTimeout is how long Stop waits for requests in flight; default 8 s.
	DrainTimeout time.Duration

	NATSListen string // address of the embedded NATS server; empty with Join
	// NATSUsers is a file in nats-server's format with the users of the embedded server. If it is
	// empty, the server requires no credentials.
	NATSUsers string
	// NATSInboxPrefixes has the inbox prefixes of users that NATSUsers does not name. A request
	// over NATS whose reply subject is outside all known prefixes is dropped.
	NATSInboxPrefixes []string
	// TrustAccounts identifies NATS clients by the account that the server reports; see
	// service.Config.
	TrustAccounts     bool
	NATSRoutes        []string // peers of the embedded server in a NATS cluster: "nats://10.0.0.2:6222"
	NATSClusterListen string   // address for these peers; empty without NATSRoutes
	Join              []string // URLs of NATS servers to use instead of an embedded one
	ClusterListen     string   // address for the actors of other nodes; default: a free port on loopback
	DataListen        string   // address for bulk data; default: a free port on loopback
	Advertise         string   // host that other nodes connect to, if an address above has none
	// TLS secures the connections to other nodes and to NATS; nil: no TLS.
	TLS *security.Identity
	// Login authenticates the node to NATS, in addition to TLS.
	Login security.Login

	// AuditLog is a file to which a line is appended for each change of state and for each denied
	// request. If it is empty, these lines go to Log.
	AuditLog string

	// Planning has the limits of the planner; zero fields have their defaults. All nodes should have the same.
	Planning schedule.Options
	// Deployments are applied at the start. Stored deployments that are not in this list are kept.
	Deployments []*messages.DeploymentSpec
	// Adapters are registered at the start, after Deployments are applied.
	Adapters []*messages.RegisterAdapterRequest
	Version  string // semantic version of the program
	Log      zerolog.Logger

	// Middleware returns middleware for every actor of the given kind, for tracing, metrics or
	// fault injection. The first middleware handles a message first. The kinds are those that
	// "troupe tree" shows. If Middleware is nil, there is none.
	Middleware func(kind string) []actor.ReceiverMiddleware
	// Loader loads models onto devices. If it is nil, engine/llama is used, limited to Roots. Even
	// with another Loader, model folders must contain config.json, a tokenizer and safetensors
	// files, because other parts of the node read them. If Loader also implements
	// engine.Identifier, a deploy of unchanged files starts no rollout.
	Loader engine.Loader
	// Runtime gives the node time, concurrency, randomness and ids; nil: supervise.System.
	Runtime supervise.Runtime
}

// GPU is a device and the source of its health and utilization data.
type GPU = gpus.GPU

// TiersConfig configures the KV tiers below HBM. The zero value has none.
type TiersConfig = tiers.Config

// WebConfig configures the access over HTTP and its limits.
type WebConfig struct {
	Limits web.Limits
	// Metrics is a second address, for /metrics, /live, /health and /ready; empty: none. On
	// loopback, clients of this address need no key.
	Metrics string
	// Hosts has additional host names of this node. localhost, the node's own names and its
	// addresses are always accepted. Other host names are refused if Hosts is set, or if a node
	// without keys listens on loopback.
	Hosts   []string
	Origins []string // web origins that may access the API
	// BodyBytes limits the memory for request bodies; 0: the gateway's default.
	BodyBytes int64
}

func (c Config) withDefaults() Config {
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 8*time.Second)
	c.ClusterListen = cmp.Or(c.ClusterListen, "127.0.0.1:0")
	c.DataListen = cmp.Or(c.DataListen, "127.0.0.1:0")
	c.Tiers.Watermark = cmp.Or(c.Tiers.Watermark, kv.DefaultWatermark)
	c.Tiers.Policy = cmp.Or(c.Tiers.Policy, kv.DefaultPolicy)
	c.Runtime = supervise.OrSystem(c.Runtime)
	if c.Watch == nil {
		c.Watch = &replica.DefaultWatch
	}
	if c.Instance == "" {
		c.Instance = c.Runtime.ID()
	}
	return c
}

// kvReserve returns the share of a GPU's memory that is reserved for KV blocks.
func (c Config) kvReserve(gpu string) float64 {
	for _, name := range []string{gpu, ""} {
		if share, ok := c.KVReserve[name]; ok {
			return share
		}
	}
	return hbm.DefaultKVReserve
}
