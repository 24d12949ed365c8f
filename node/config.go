package node

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/core/hbm"
	"troupe/core/kv"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/telemetry"
	"troupe/engine"
	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/modelfile"
)

// Config describes a node. Whoever fills it has checked it.
type Config struct {
	Name     string // of the node
	Instance string // of the data folder: it stays when the node is restarted
	DataDir  string
	HTTP     string       // "127.0.0.1:8000"; port 0 takes a free one
	Web      net.Listener // at HTTP; nil: Start listens there
	HTTPTLS  *tls.Config  // nil: plain HTTP
	Keys     *apikey.Keys // nil: everybody is served
	WebConfig
	GPUs    []GPU         // opened already; the node closes them, also if it does not start
	Devices []host.Config // software GPUs beside them
	Tiers   TiersConfig
	// KVReserve is the share of a GPU's memory that is kept for KV blocks, by its name ("gpu-0"), and "" for those not named;
	// default hbm.DefaultKVReserve.
	KVReserve map[string]float64
	// Roots are the folders that models and adapters may be read from.
	Roots modelfile.Roots
	// TrustedProxies say in X-Forwarded-For or Forwarded for whom they ask.
	TrustedProxies []netip.Prefix
	// AdapterHostBytes of page-locked host memory keep adapters that were read from disk, for each replica; 0: none are kept.
	AdapterHostBytes int64
	// DrainTimeout is how long requests under way may finish when the node is told to stop; default 8 s.
	DrainTimeout time.Duration

	NATSListen string // of the embedded server, like HTTP; empty with Join
	// NATSUsers is a file in the form of nats-server's own, with who may use the embedded server. Empty: everybody.
	NATSUsers string
	// NATSInboxPrefixes are inbox prefixes of users beside those that NATSUsers names; requests that expect their answer elsewhere
	// are dropped.
	NATSInboxPrefixes []string
	// TrustAccounts takes the account of NATS clients from what the server says; see service.Config.
	TrustAccounts     bool
	NATSRoutes        []string // "nats://10.0.0.2:6222": the embedded servers that this one makes a NATS cluster with
	NATSClusterListen string   // where those connect; empty without NATSRoutes
	Join              []string // NATS servers to use instead of an embedded one
	ClusterListen     string   // for the actors of other nodes; port 0 takes a free one
	DataListen        string   // for bulk data, likewise
	Advertise         string   // the host that other nodes are told; empty: that of the addresses above
	// TLS is for everything between nodes and to NATS; nil: plain.
	TLS *security.Identity
	// Login says to NATS who this node is; with TLS where there is some.
	Login security.Login

	// AuditLog is a file with a line for each change of state, and each request that was not allowed. Empty: those are lines of Log.
	AuditLog string

	// Deployments are applied at the start, beside those that are stored.
	Deployments []*messages.DeploymentSpec
	// Adapters likewise, after them.
	Adapters []*messages.RegisterAdapterRequest
	Version  string // semantic
	Log      zerolog.Logger

	// Wrap is given the recipe of every actor before it is used. For tests: crash injection, checks of messages.
	Wrap func(kind string, props *actor.Props) *actor.Props
	// WrapFormat is given what reads models, likewise.
	WrapFormat func(engine.Loader) engine.Loader
}

// GPU is a device and what tells how it is.
type GPU struct {
	cuda.Device
	Source telemetry.Source
}

func (c Config) withDefaults() Config {
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 8*time.Second)
	c.ClusterListen = cmp.Or(c.ClusterListen, "127.0.0.1:0")
	c.DataListen = cmp.Or(c.DataListen, "127.0.0.1:0")
	c.Tiers.Watermark = cmp.Or(c.Tiers.Watermark, kv.DefaultWatermark)
	c.Tiers.Policy = cmp.Or(c.Tiers.Policy, kv.DefaultPolicy)
	c.Instance = cmp.Or(c.Instance, rand.Text())
	return c
}

// kvReserve is the share of a GPU's memory that is kept for KV blocks.
func (c Config) kvReserve(gpu string) float64 {
	for _, name := range []string{gpu, ""} {
		if share, said := c.KVReserve[name]; said {
			return share
		}
	}
	return hbm.DefaultKVReserve
}
